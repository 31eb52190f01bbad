import math
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import Forked
from preference_run import CONFIG, step_pairs, tiny_model, train_and_die, trajectory_pairs
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, BloomConfig, BloomForCausalLM, OPTConfig, OPTForCausalLM

from bestofq.core.errors import CheckpointError, ConfigError
from bestofq.core.preferences import PreferencePair, Turn
from bestofq.learning import tuning
from bestofq.learning.config import DPOConfig
from bestofq.learning.objectives import PairMeans, preferences
from bestofq.learning.shared_prefix import reply_log_probs
from bestofq.learning.tuning import TuningProgress, schedule, train_on_preferences
from bestofq.learning.tuning_batches import PairBatches, nodes_of, units

TURNS = preferences(CONFIG.beta).turns


def trained(
    out: Path, pairs: list[PreferencePair], model: Any = None, **changes: Any
) -> tuple[dict[str, torch.Tensor], list[TuningProgress[PairMeans]]]:
    """Weights and progress of a run of the tiny model."""
    rows: list[TuningProgress[PairMeans]] = []
    config = CONFIG.model_copy(update=changes)
    folder = train_on_preferences(tiny_model() if model is None else model, pairs, config, rows.append, out=out)
    return load_file(folder / "model.safetensors"), rows


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], atol: float = 2e-6) -> None:
    assert found.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=atol)


def test_it_learns_to_prefer_what_is_preferred(tmp_path: Path) -> None:
    _, rows = trained(tmp_path, step_pairs(), epochs=8, lr=1e-2)
    assert rows[0].means.loss == pytest.approx(
        0.6931, abs=1e-4
    )  # log 2: the policy is where the likelihoods were stored
    assert abs(rows[0].means.chosen_reward) < 1e-4
    assert rows[-1].means.loss < 0.5
    assert rows[-1].means.accuracy == 1.0
    assert rows[-1].means.margin > 0.3
    assert rows[-1].step == rows[-1].steps == 24


def test_shared_prompts_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, rows = trained(tmp_path / "shared", step_pairs())
    monkeypatch.setattr(tuning, "can_share", lambda model: False)
    plain, other = trained(tmp_path / "plain", step_pairs())
    assert_same(shared, plain)
    assert [row.means.loss for row in rows] == pytest.approx([row.means.loss for row in other], abs=1e-5)
    assert [row.tokens for row in rows] == [row.tokens for row in other]


def test_neither_micro_batches_nor_checkpointed_activations_change_the_gradient(tmp_path: Path) -> None:
    wide, _ = trained(tmp_path / "wide", step_pairs(), micro_batch_tokens=10_000)
    narrow, _ = trained(tmp_path / "narrow", step_pairs(), micro_batch_tokens=1, gradient_checkpointing=True)
    assert_same(narrow, wide)


def test_a_trajectory_longer_than_a_micro_batch_learns_the_same(tmp_path: Path) -> None:
    whole, rows = trained(tmp_path / "whole", trajectory_pairs(), micro_batch_tokens=10_000)
    split, other = trained(tmp_path / "split", trajectory_pairs(), micro_batch_tokens=12)
    assert_same(split, whole)
    assert rows[0].means.loss == pytest.approx(0.6931, abs=1e-4)
    assert [row.means.margin for row in rows] == pytest.approx([row.means.margin for row in other], abs=1e-5)


@pytest.mark.parametrize("pairs", [step_pairs(), trajectory_pairs()], ids=["Eq. 5", "Eq. 6"])
def test_the_first_gradient_is_that_of_the_equation_by_the_plain_model(
    pairs: list[PreferencePair], tmp_path: Path
) -> None:
    """Shared prompts, micro-batches and slopes by likelihoods, against one pass for each turn and autograd alone."""
    beta, plain, ours = CONFIG.beta, tiny_model(), tiny_model()

    def reward(turns: tuple[Turn, ...]) -> torch.Tensor:
        rewards = []
        for turn in turns:
            ids = torch.tensor([[*turn.prompt_ids, *turn.reply_ids]])
            said = plain(ids).logits.log_softmax(-1)[0, len(turn.prompt_ids) - 1 : -1]
            rewards.append(said[range(len(turn.reply_ids)), turn.reply_ids].sum() - turn.log_prob)
        return beta * torch.stack(rewards).sum()

    losses = [-(reward(pair.chosen) - reward(pair.rejected)).sigmoid().log() for pair in pairs]
    torch.stack(losses).mean().backward()
    summed: dict[str, torch.Tensor] = {}
    for name, weight in ours.named_parameters():  # before they are clipped
        weight.register_post_accumulate_grad_hook(lambda w, name=name: summed.update({name: w.grad.clone()}))
    trained(tmp_path, pairs, ours, batch_size=len(pairs), epochs=1)
    for name, weight in plain.named_parameters():
        assert weight.grad.abs().max() > 0
        torch.testing.assert_close(summed[name], weight.grad, rtol=1e-4, atol=1e-6)


def test_replayed_pairs_are_held_against_the_policy_that_drew_them(tmp_path: Path) -> None:
    """Two pairs of the same turns: one drawn by the policy itself, whose loss is log 2, and one by an earlier policy
    that gave the chosen turn e² times less and the rejected one e times more: a margin of β · (2 - -1)."""
    own = step_pairs(1)[0]
    (chosen,), (rejected,) = own.chosen, own.rejected
    earlier = own.model_copy(
        update={
            "chosen": (chosen.model_copy(update={"log_prob": chosen.log_prob - 2}),),
            "rejected": (rejected.model_copy(update={"log_prob": rejected.log_prob + 1}),),
        }
    )
    _, rows = trained(tmp_path, [earlier, own], epochs=1, beta=0.1)
    assert rows[0].means.loss == pytest.approx((math.log1p(math.exp(-0.3)) + math.log(2)) / 2, abs=1e-5)
    assert rows[0].means.margin == pytest.approx(0.3 / 2, abs=1e-5)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (
            OPTForCausalLM,
            OPTConfig(vocab_size=32, hidden_size=16, ffn_dim=32, word_embed_proj_dim=16, num_attention_heads=2),
        ),
        (BloomForCausalLM, BloomConfig(vocab_size=32, hidden_size=16, n_layer=2, n_head=2, hidden_dropout=0.5)),
    ],
    ids=["OPT", "BLOOM"],
)
def test_models_that_keep_their_dropout_as_a_number_learn_without_it_too(make: Any, shape: Any, tmp_path: Path) -> None:
    model = make(shape).eval()

    def drawn(side: tuple[Turn, ...]) -> tuple[Turn, ...]:
        with torch.no_grad():
            likely = [float(reply_log_probs(model, nodes_of([turn]), share=False)) for turn in side]
        return tuple(turn.model_copy(update={"log_prob": p}) for turn, p in zip(side, likely, strict=True))

    sides = [{"chosen": drawn(pair.chosen), "rejected": drawn(pair.rejected)} for pair in step_pairs()]
    pairs = [pair.model_copy(update=own) for pair, own in zip(step_pairs(), sides, strict=True)]
    _, rows = trained(tmp_path, pairs, model, epochs=1)
    assert rows[0].means.loss == pytest.approx(math.log(2), abs=1e-5)
    assert abs(rows[0].means.chosen_reward) < 1e-5


def test_adapters_are_merged_into_a_model_that_loads(tmp_path: Path) -> None:
    weights, rows = trained(tmp_path, step_pairs(), lora=4, epochs=8, lr=1e-2)
    assert rows[-1].means.loss < rows[0].means.loss
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    before = tiny_model().state_dict()
    assert (tmp_path / "adapter" / "adapter_model.safetensors").exists()
    assert {name for name, value in weights.items() if not torch.equal(value, before[name])} >= {
        "model.layers.0.self_attn.q_proj.weight"
    }
    assert torch.equal(model.get_input_embeddings().weight, before["model.embed_tokens.weight"])


def test_matrix_products_in_bfloat16_learn_as_well(tmp_path: Path) -> None:
    weights, rows = trained(tmp_path, step_pairs(), epochs=8, lr=1e-2, precision="bfloat16")
    assert rows[-1].means.loss < 0.5
    assert {value.dtype for value in weights.values()} == {torch.float32}


def test_killed_in_the_middle_it_ends_with_the_same_weights(tmp_path: Path) -> None:
    expected, through = trained(tmp_path / "through", step_pairs())
    killed = Forked(tmp_path / "log", train_and_die, tmp_path / "killed", 3)
    assert killed.wait() == -signal.SIGKILL, killed.said
    assert [line.split()[0] for line in killed.said.splitlines()] == ["1", "2", "3"]
    assert [path.name for path in (tmp_path / "killed" / ".training").iterdir()] == ["step-2"]
    assert not (tmp_path / "killed" / "model").exists()
    found, again = trained(tmp_path / "killed", step_pairs())
    assert again == through[2:]  # step 3 is done again
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    assert not (tmp_path / "killed" / ".training").exists()


def test_weights_that_would_round_every_step_away_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="float32, or set `lora`"):
        trained(tmp_path, step_pairs(2), model=tiny_model().bfloat16())


def test_a_finished_run_is_not_repeated_and_another_one_is_refused(tmp_path: Path) -> None:
    trained(tmp_path, step_pairs(2))
    _, rows = trained(tmp_path, step_pairs(2))
    assert rows == []
    with pytest.raises(CheckpointError, match="of other data or settings"):
        trained(tmp_path, step_pairs(3))


def test_every_pair_comes_once_an_epoch_and_processes_keep_in_step() -> None:
    pairs = step_pairs() + trajectory_pairs()
    config = DPOConfig(batch_size=5, micro_batch_tokens=20, epochs=2)
    ranks = [PairBatches(pairs, TURNS, config, share=True, rank=rank, size=3) for rank in range(3)]
    seen = []
    for step in range(len(ranks[0])):
        shares = [batches[step] for batches in ranks]
        shapes = {tuple(len(round_.micro_batches) for round_ in share.rounds) for share in shares}
        assert len(shapes) == 1
        mine = [pair for share in shares for round_ in share.rounds for pair in round_.items]
        assert sorted(mine, key=str) == sorted(shares[0].items, key=str)
        seen += mine
    assert sorted(seen, key=str) == sorted(pairs * 2, key=str)


def test_pairs_of_one_node_share_its_prompt_and_its_turns() -> None:
    pairs = step_pairs(2)
    together = units(pairs, TURNS)
    assert [len(unit) for unit in together] == [2, 2]
    (node,) = nodes_of(turn for pair in together[0] for turn in TURNS(pair))
    assert len(node.replies) == 3  # the chosen one once


def test_the_rate_rises_and_falls() -> None:
    assert [schedule(step, 10, 0.2) for step in range(10)] == pytest.approx(
        [0.5, 1, 1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]
    )
