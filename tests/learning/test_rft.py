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


def test_nothing_to_learn_from_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="0 turns"):
        train_on_successes(tiny_model(), [], RFTConfig(), print, tokenizer=words(), out=tmp_path)
