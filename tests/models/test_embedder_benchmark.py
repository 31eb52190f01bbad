"""`benchmarks/embedder.py`: its real sizes have as many weights as the published models, and a tiny one runs."""

import json
from pathlib import Path

import pytest
import torch
import transformers

from benchmarks.embedder import CONTROL, config_of, main


@pytest.mark.parametrize(
    ("size", "published", "head"), [("3b", 3_754_622_976, 0), ("7b", 8_292_166_656, 152_064 * 3584)]
)
def test_the_sizes_are_the_published_ones(size: str, published: int, head: int) -> None:
    """The head is none of the embedder's; 3B's is its table of words."""
    with torch.device("meta"):
        model = transformers.AutoModel.from_config(config_of(size, dict.fromkeys(CONTROL, 5)))
    assert sum(weight.numel() for weight in model.parameters()) + head == published


@pytest.mark.slow
def test_a_tiny_one_is_measured(tmp_path: Path) -> None:
    out = tmp_path / "embedder.json"
    given = "--sizes tiny --device cpu --precision float32 --states 1 --actions 2 --rounds 1"
    main([*given.split(), "--out", str(out)])
    found = json.loads(out.read_text())["results"]["tiny"]
    assert found["tokens_a_state"] > 45 * 28 + 130  # 1280 x 800 pixels, shrunk to as many squares of 28
    assert min(found[name] for name in ("states_per_s", "states_per_s_model_alone", "actions_per_s", "tflop_per_s")) > 0


def test_a_gpu_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--device", "cuda:99"])
    assert "cuda:99" in capsys.readouterr().err
