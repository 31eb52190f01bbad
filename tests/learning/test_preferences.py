"""A tiny model and pairs for it, and a training run of them that is killed."""

import math
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from forked import Forked
from safetensors.torch import load_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoModelForCausalLM, BloomConfig, LlamaConfig, OPTConfig, PreTrainedTokenizerFast

from bestofq.core.errors import CheckpointError, ConfigError, DataError
from bestofq.core.preferences import PreferencePair, Turn
from bestofq.learning import tuning
from bestofq.learning.config import DPOConfig, TuningConfig
from bestofq.learning.objectives import preferences, slopes_of, successes
from bestofq.learning.shared_prefix import Branches, reply_log_probs
from bestofq.learning.tuning import TuningProgress, schedule, train_policy
from bestofq.learning.tuning_batches import PairBatches, nodes_of, units

CONFIG = DPOConfig(
    lr=3e-3, batch_size=4, micro_batch_tokens=64, epochs=2, checkpoint_every=2, precision="float32", device="cpu"
)


def tiny_model() -> Any:
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=32, max_position_embeddings=64, tie_word_embeddings=True, **shape)
    return AutoModelForCausalLM.from_config(config)


def drawn_turns(nodes: int, replies: int, *, seed: int = 1) -> list[list[Turn]]:
    """Turns of `nodes` prompts, with the likelihoods that `tiny_model` gives them."""
    generator = torch.Generator().manual_seed(seed)
    model, found = tiny_model(), []
    for _ in range(nodes):
        lengths = torch.randint(2, 7, (replies + 1,), generator=generator).tolist()
        prompt, *some = (tuple(torch.randint(2, 32, (n,), generator=generator).tolist()) for n in lengths)
        with torch.no_grad():
            log_probs = reply_log_probs(model, [Branches(prompt, some)], share=False).tolist()
        turns = zip(some, log_probs, strict=True)
        found.append([Turn(prompt_ids=prompt, reply_ids=reply, log_prob=p) for reply, p in turns])
    return found


def step_pairs(nodes: int = 6) -> list[PreferencePair]:
    """Two pairs a node, which share the better turn."""
    return [
        PreferencePair(chosen=(best,), rejected=(worse,), margin=0.5, task=str(number), node=number)
        for number, (best, *rest) in enumerate(drawn_turns(nodes, 3))
        for worse in rest
    ]


def trajectory_pairs(count: int = 3) -> list[PreferencePair]:
    """A success of three turns beside a failure of two, from the same first prompt."""
    found = []
    for number in range(count):
        first, *later = drawn_turns(4, 2, seed=10 + number)
        won, lost = (first[0], later[0][0], later[1][0]), (first[1], later[2][0])
        found.append(PreferencePair(chosen=won, rejected=lost, margin=1.0, task=str(number)))
    return found


def train_and_die(out: Path, die_after: int) -> None:
    def report(progress: TuningProgress) -> None:
        sys.stdout.write(f"{progress.step} {progress.means['loss']}\n")
        sys.stdout.flush()
        if progress.step == die_after:
            os.kill(os.getpid(), signal.SIGKILL)

    train_policy(tiny_model(), step_pairs(), CONFIG, report, out=out)


TURNS = preferences(CONFIG.beta).turns


def trained(
    out: Path, pairs: list[PreferencePair], model: Any = None, **changes: Any
) -> tuple[dict[str, torch.Tensor], list[TuningProgress]]:
    """Weights and progress of a run of the tiny model."""
    rows: list[TuningProgress] = []
    config = CONFIG.model_copy(update=changes)
    folder = train_policy(tiny_model() if model is None else model, pairs, config, rows.append, out=out)
    return load_file(folder / "model.safetensors"), rows


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], atol: float = 2e-6) -> None:
    assert found.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-4, atol=atol)


def test_it_learns_to_prefer_what_is_preferred(tmp_path: Path) -> None:
    _, rows = trained(tmp_path, step_pairs(), epochs=8, lr=1e-2)
    assert rows[0].means["loss"] == pytest.approx(math.log(2), abs=1e-4)  # the policy is that of the stored likelihoods
    assert abs(rows[0].means["chosen_reward"]) < 1e-4
    assert rows[-1].means["loss"] < 0.5
    assert rows[-1].means["accuracy"] == 1.0
    assert rows[-1].means["margin"] > 0.3
    assert rows[-1].step == rows[-1].steps == 24


def test_shared_prompts_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, rows = trained(tmp_path / "shared", step_pairs())
    monkeypatch.setattr(tuning, "can_share", lambda model: False)
    plain, other = trained(tmp_path / "plain", step_pairs())
    assert_same(shared, plain)
    assert [row.means["loss"] for row in rows] == pytest.approx([row.means["loss"] for row in other], abs=1e-5)


def test_neither_micro_batches_nor_checkpointed_activations_change_the_gradient(tmp_path: Path) -> None:
    wide, _ = trained(tmp_path / "wide", step_pairs(), micro_batch_tokens=10_000)
    narrow, _ = trained(tmp_path / "narrow", step_pairs(), micro_batch_tokens=1, gradient_checkpointing=True)
    assert_same(narrow, wide)


def test_a_trajectory_longer_than_a_micro_batch_learns_the_same(tmp_path: Path) -> None:
    whole, rows = trained(tmp_path / "whole", trajectory_pairs(), micro_batch_tokens=10_000)
    split, other = trained(tmp_path / "split", trajectory_pairs(), micro_batch_tokens=12)
    assert_same(split, whole)
    assert rows[0].means["loss"] == pytest.approx(0.6931, abs=1e-4)
    assert [row.means["margin"] for row in rows] == pytest.approx([row.means["margin"] for row in other], abs=1e-5)


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
    assert rows[0].means["loss"] == pytest.approx((math.log1p(math.exp(-0.3)) + math.log(2)) / 2, abs=1e-5)
    assert rows[0].means["margin"] == pytest.approx(0.3 / 2, abs=1e-5)


OPT = OPTConfig(vocab_size=32, hidden_size=16, ffn_dim=32, word_embed_proj_dim=16, num_attention_heads=2)
BLOOM = BloomConfig(vocab_size=32, hidden_size=16, n_layer=2, n_head=2, hidden_dropout=0.5)


@pytest.mark.parametrize("shape", [OPT, BLOOM], ids=["OPT", "BLOOM"])
def test_models_that_keep_their_dropout_as_a_number_learn_without_it_too(shape: Any, tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_config(shape).eval()

    def drawn(side: tuple[Turn, ...]) -> tuple[Turn, ...]:
        with torch.no_grad():
            likely = [float(reply_log_probs(model, nodes_of([turn]), share=False)) for turn in side]
        return tuple(turn.model_copy(update={"log_prob": p}) for turn, p in zip(side, likely, strict=True))

    sides = [{"chosen": drawn(pair.chosen), "rejected": drawn(pair.rejected)} for pair in step_pairs()]
    pairs = [pair.model_copy(update=own) for pair, own in zip(step_pairs(), sides, strict=True)]
    _, rows = trained(tmp_path, pairs, model, epochs=1)
    assert rows[0].means["loss"] == pytest.approx(math.log(2), abs=1e-5)
    assert abs(rows[0].means["chosen_reward"]) < 1e-5


def test_adapters_are_merged_into_a_model_that_loads(tmp_path: Path) -> None:
    weights, rows = trained(tmp_path, step_pairs(), lora=4, epochs=8, lr=1e-2)
    assert rows[-1].means["loss"] < rows[0].means["loss"]
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    before = tiny_model().state_dict()
    assert (tmp_path / "adapter" / "adapter_model.safetensors").exists()
    assert {name for name, value in weights.items() if not torch.equal(value, before[name])} >= {
        "model.layers.0.self_attn.q_proj.weight"
    }
    assert torch.equal(model.get_input_embeddings().weight, before["model.embed_tokens.weight"])


def test_matrix_products_in_bfloat16_learn_as_well(tmp_path: Path) -> None:
    weights, rows = trained(tmp_path, step_pairs(), epochs=8, lr=1e-2, precision="bfloat16")
    assert rows[-1].means["loss"] < 0.5
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


RFT_CONFIG = TuningConfig(lr=1e-2, batch_size=4, micro_batch_tokens=64, precision="float32", device="cpu")


def log_probs(model: Any, turns: list[Turn]) -> torch.Tensor:
    with torch.no_grad():
        nodes = [Branches(turn.prompt_ids, [turn.reply_ids]) for turn in turns]
        return reply_log_probs(model.eval(), nodes, share=False)


def test_the_loss_is_of_the_replies_alone_and_falls(tmp_path: Path) -> None:
    turns = [turn for node in drawn_turns(4, 1) for turn in node]
    rows: list[TuningProgress] = []
    folder = train_policy(tiny_model(), turns, RFT_CONFIG.model_copy(update={"epochs": 12}), rows.append, out=tmp_path)
    tokens = sum(len(turn.reply_ids) for turn in turns)
    assert rows[0].means["loss"] == pytest.approx(-sum(turn.log_prob for turn in turns) / tokens, abs=1e-4)
    assert rows[-1].means["loss"] < 0.8 * rows[0].means["loss"]
    assert (rows[-1].step, rows[-1].steps) == (12, 12)
    after = AutoModelForCausalLM.from_pretrained(folder)
    assert log_probs(after, turns).sum() > sum(turn.log_prob for turn in turns)


def test_a_turn_of_two_trajectories_weighs_twice() -> None:
    (one, other), *_ = drawn_turns(1, 2)
    nodes = nodes_of([one, other])
    terms = successes().terms([one, other, one], nodes, torch.device("cpu"))
    slopes, sums = slopes_of(terms, torch.tensor([-1.0, -3.0]))
    assert slopes.tolist() == [-2, -1]
    assert sums.tolist() == [5]


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning")
def test_the_steps_are_those_of_trl(tmp_path: Path) -> None:
    """The same turns in one batch a step: losses, learning rates and weights of TRL's SFTTrainer."""
    import datasets  # it and TRL take seconds to import: not for tests that need neither
    import trl

    turns = [turn for node in drawn_turns(4, 1) for turn in node]
    config = RFT_CONFIG.model_copy(update={"lr": 1e-3, "epochs": 5})
    rows: list[TuningProgress] = []
    ours = AutoModelForCausalLM.from_pretrained(
        train_policy(tiny_model(), turns, config, rows.append, out=tmp_path / "ours")
    )
    theirs = tiny_model()
    tokenizer = Tokenizer(WordLevel({f"w{n}": n for n in range(32)}, unk_token="w0"))
    data = {
        "input_ids": [[*turn.prompt_ids, *turn.reply_ids] for turn in turns],
        "labels": [[-100] * len(turn.prompt_ids) + list(turn.reply_ids) for turn in turns],
    }
    quiet = {"bf16": False, "use_cpu": True, "logging_steps": 1, "report_to": [], "disable_tqdm": True}
    arguments = trl.SFTConfig(
        output_dir=str(tmp_path / "theirs"),
        max_length=None,
        learning_rate=config.lr,
        num_train_epochs=config.epochs,
        per_device_train_batch_size=len(turns),
        **quiet,
    )
    trainer = trl.SFTTrainer(
        model=theirs,
        args=arguments,
        train_dataset=datasets.Dataset.from_dict(data),
        processing_class=PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="w2", pad_token="w0"),
    )
    trainer.train()
    logged = [row for row in trainer.state.log_history if "loss" in row]
    assert [row.means["loss"] for row in rows] == pytest.approx([row["loss"] for row in logged], abs=1e-3)
    assert [row.lr for row in rows] == pytest.approx([row["learning_rate"] for row in logged])
    for (name, weight), reference in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(weight, reference, rtol=1e-3, atol=2e-5, msg=name)


@pytest.mark.parametrize("lora", [None, 4], ids=["all weights", "adapters"])
def test_stopped_in_the_middle_it_ends_with_the_same_weights(lora: int | None, tmp_path: Path) -> None:
    turns = [turn for node in drawn_turns(5, 2) for turn in node]
    config = RFT_CONFIG.model_copy(update={"epochs": 2, "batch_size": 2, "checkpoint_every": 2, "lora": lora})

    def trained(name: str, stop_after: int = 0) -> dict[str, torch.Tensor]:
        def report(row: TuningProgress) -> None:
            if row.step == stop_after:
                raise KeyboardInterrupt

        folder = train_policy(tiny_model(), turns, config, report, out=tmp_path / name)
        return dict(AutoModelForCausalLM.from_pretrained(folder).state_dict())

    whole = trained("whole")
    with pytest.raises(KeyboardInterrupt):
        trained("stopped", stop_after=7)
    torch.testing.assert_close(trained("stopped"), whole, rtol=0, atol=0)
    changed = (tmp_path / "whole" / "model" / "model.safetensors").stat().st_mtime_ns
    trained("whole", stop_after=1)  # finished: nothing is trained again
    assert (tmp_path / "whole" / "model" / "model.safetensors").stat().st_mtime_ns == changed


def test_nothing_to_learn_from_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="0 successful turns"):
        train_policy(tiny_model(), [], TuningConfig(), print, out=tmp_path)
