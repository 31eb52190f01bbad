from pathlib import Path
from typing import Any

import pytest
import torch
from preference_run import drawn_turns, tiny_model
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from bestofq.core.errors import DataError
from bestofq.core.preferences import Turn
from bestofq.learning.config import RFTConfig
from bestofq.learning.objectives import TurnMeans, slopes_of, successes
from bestofq.learning.shared_prefix import Branches, reply_log_probs
from bestofq.learning.tuning import TuningProgress, train_on_successes
from bestofq.learning.tuning_batches import nodes_of

CONFIG = RFTConfig(lr=1e-2, batch_size=4, micro_batch_tokens=64, precision="float32", device="cpu")


def log_probs(model: Any, turns: list[Turn]) -> torch.Tensor:
    with torch.no_grad():
        nodes = [Branches(turn.prompt_ids, [turn.reply_ids]) for turn in turns]
        return reply_log_probs(model.eval(), nodes, share=False)


def test_the_loss_is_of_the_replies_alone_and_falls(tmp_path: Path) -> None:
    turns = [turn for node in drawn_turns(4, 1) for turn in node]
    rows: list[TuningProgress[TurnMeans]] = []
    folder = train_on_successes(
        tiny_model(), turns, CONFIG.model_copy(update={"epochs": 12}), rows.append, out=tmp_path
    )
    tokens = sum(len(turn.reply_ids) for turn in turns)
    assert rows[0].means.loss == pytest.approx(-sum(turn.log_prob for turn in turns) / tokens, abs=1e-4)
    assert rows[-1].means.loss < 0.8 * rows[0].means.loss
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
    config = CONFIG.model_copy(update={"lr": 1e-3, "epochs": 5})
    rows: list[TuningProgress[TurnMeans]] = []
    ours = AutoModelForCausalLM.from_pretrained(
        train_on_successes(tiny_model(), turns, config, rows.append, out=tmp_path / "ours")
    )
    theirs = tiny_model()
    tokenizer = Tokenizer(WordLevel({f"w{n}": n for n in range(32)}, unk_token="w0"))
    data = {
        "input_ids": [[*turn.prompt_ids, *turn.reply_ids] for turn in turns],
        "labels": [[-100] * len(turn.prompt_ids) + list(turn.reply_ids) for turn in turns],
    }
    arguments = trl.SFTConfig(
        output_dir=str(tmp_path / "theirs"),
        learning_rate=config.lr,
        num_train_epochs=config.epochs,
        per_device_train_batch_size=len(turns),
        bf16=False,
        use_cpu=True,
        logging_steps=1,
        max_length=None,
        report_to=[],
        disable_tqdm=True,
    )
    trainer = trl.SFTTrainer(
        model=theirs,
        args=arguments,
        train_dataset=datasets.Dataset.from_dict(data),
        processing_class=PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="w2", pad_token="w0"),
    )
    trainer.train()
    logged = [row for row in trainer.state.log_history if "loss" in row]
    assert [row.means.loss for row in rows] == pytest.approx([row["loss"] for row in logged], abs=1e-3)
    assert [row.lr for row in rows] == pytest.approx([row["learning_rate"] for row in logged])
    for (name, weight), reference in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(weight, reference, rtol=1e-3, atol=2e-5, msg=name)


@pytest.mark.parametrize("lora", [None, 4], ids=["all weights", "adapters"])
def test_stopped_in_the_middle_it_ends_with_the_same_weights(lora: int | None, tmp_path: Path) -> None:
    turns = [turn for node in drawn_turns(5, 2) for turn in node]
    config = CONFIG.model_copy(update={"epochs": 2, "batch_size": 2, "checkpoint_every": 2, "lora": lora})

    def trained(name: str, stop_after: int = 0) -> dict[str, torch.Tensor]:
        def report(row: TuningProgress[TurnMeans]) -> None:
            if row.step == stop_after:
                raise KeyboardInterrupt

        folder = train_on_successes(tiny_model(), turns, config, report, out=tmp_path / name)
        return dict(AutoModelForCausalLM.from_pretrained(folder).state_dict())

    whole = trained("whole")
    with pytest.raises(KeyboardInterrupt):
        trained("stopped", stop_after=7)
    torch.testing.assert_close(trained("stopped"), whole, rtol=0, atol=0)
    changed = (tmp_path / "whole" / "model" / "model.safetensors").stat().st_mtime_ns
    trained("whole", stop_after=1)  # finished: nothing is trained again
    assert (tmp_path / "whole" / "model" / "model.safetensors").stat().st_mtime_ns == changed


def test_nothing_to_learn_from_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="0 turns"):
        train_on_successes(tiny_model(), [], RFTConfig(), print, out=tmp_path)
