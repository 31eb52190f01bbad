import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from preference_run import drawn_turns, tiny_model
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from bestofq.core.errors import DataError
from bestofq.core.preferences import Turn
from bestofq.learning.adapters import LoRAConfig
from bestofq.learning.rft import RFTConfig, RFTProgress, train_on_successes
from bestofq.learning.shared_prefix import Branches, reply_log_probs


def words() -> Any:
    tokenizer = Tokenizer(WordLevel({f"w{n}": n for n in range(32)}, unk_token="w0"))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="w2", pad_token="w0")


def log_probs(model: Any, turns: list[Turn]) -> torch.Tensor:
    with torch.no_grad():
        nodes = [Branches(turn.prompt_ids, [turn.reply_ids]) for turn in turns]
        return reply_log_probs(model.eval(), nodes, share=False)


def test_the_loss_is_of_the_replies_alone_and_falls(tmp_path: Path) -> None:
    turns = [turn for node in drawn_turns(4, 1) for turn in node]
    rows: list[RFTProgress] = []
    config = RFTConfig(lr=1e-2, epochs=12, batch_turns=4, cpu=True)
    folder = train_on_successes(tiny_model(), turns, config, rows.append, tokenizer=words(), out=tmp_path)
    tokens = sum(len(turn.reply_ids) for turn in turns)
    assert rows[0].loss == pytest.approx(-sum(turn.log_prob for turn in turns) / tokens, abs=1e-4)
    assert rows[-1].loss < 0.8 * rows[0].loss
    assert (rows[-1].step, rows[-1].steps) == (12, 12)
    after = AutoModelForCausalLM.from_pretrained(folder)
    assert log_probs(after, turns).sum() > sum(turn.log_prob for turn in turns)


class KilledError(Exception):
    """Ends a run in the middle."""


def trained(out: Path, lora: LoRAConfig | None, die_after: int = 0) -> dict[str, torch.Tensor]:
    """The weights that ten steps end in; KilledError after step `die_after`. Each second one is kept."""
    turns = [turn for node in drawn_turns(5, 2) for turn in node]
    config = RFTConfig(lr=1e-2, epochs=2, batch_turns=2, checkpoint_every=2, lora=lora, cpu=True)

    def report(row: RFTProgress) -> None:
        if row.step == die_after:
            raise KilledError

    folder = train_on_successes(tiny_model(), turns, config, report, tokenizer=words(), out=out)
    return dict(AutoModelForCausalLM.from_pretrained(folder).state_dict())


@pytest.mark.parametrize("lora", [None, LoRAConfig(rank=4)], ids=["all weights", "adapters"])
def test_killed_at_any_moment_it_goes_on_bit_for_bit(
    lora: LoRAConfig | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    transformers.utils.logging.enable_propagation()  # to caplog
    whole = trained(tmp_path / "whole", lora)
    before = tiny_model().state_dict()
    assert any((weight - before[name]).abs().max() > 1e-3 for name, weight in whole.items())
    with pytest.raises(KilledError):
        trained(tmp_path / "between", lora, die_after=7)
    for name in ("no state", "half a state"):  # killed while it wrote the next one: the state comes last
        broken = shutil.copytree(tmp_path / "between", tmp_path / name) / "checkpoints" / "checkpoint-8"
        state = shutil.copytree(broken.with_name("checkpoint-6"), broken) / "trainer_state.json"
        state.write_bytes(state.read_bytes()[:300])
        if name == "no state":
            state.unlink()
    for killed in ("between", "no state", "half a state"):
        torch.testing.assert_close(trained(tmp_path / killed, lora), whole, rtol=0, atol=0)
    assert "missing keys" not in caplog.text  # of output weights that are the input's
    torch.testing.assert_close(trained(tmp_path / "whole", lora, die_after=10), whole, rtol=0, atol=0)


def test_nothing_to_learn_from_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="0 turns"):
        train_on_successes(tiny_model(), [], RFTConfig(), print, tokenizer=words(), out=tmp_path)
