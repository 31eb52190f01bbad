"""`accelerate launch … bestofq.cli.main tune`, by its files: even killed, two processes learn what one does."""

import shutil
import time
from pathlib import Path

import psutil
import pytest
import torch
from accelerate.commands.launch import launch_command, launch_command_parser
from forked import Forked, launch_forks
from launched_commands import reinforce
from safetensors.torch import load_file
from tiny_llama import save_llama
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings, ModelSettings
from bestofq.core.preferences import PreferencePair, Turn
from bestofq.learning.shared_prefix import Branches, reply_log_probs
from bestofq.recipes.policy_training import source
from bestofq.store.pairs import write_pairs
from bestofq_sites.shipped import POCKET

FILES = Path(__file__).parents[2] / "examples" / "accelerate"
COMMANDS = Path(__file__).with_name("launched_commands.py")
ADAPTERS = "agent_q.dpo.lora=4"
NODES, BATCH = 60, 4


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model, pairs that it drew, and `alone`, what one process learns from them."""
    folder = tmp_path_factory.mktemp("work")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(POCKET)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(0)
    model = save_llama(folder / "weights", tokenizer, **shape)
    generator = torch.Generator().manual_seed(1)
    pairs = []
    for node in range(NODES):
        prompt, won, lost = (
            tuple(torch.randint(3, len(tokenizer), (n,), generator=generator).tolist()) for n in (9, 4, 5)
        )
        with torch.no_grad():
            drawn = reply_log_probs(model, [Branches(prompt, [won, lost])], share=False).tolist()
        chosen, rejected = (
            Turn(prompt_ids=prompt, reply_ids=reply, log_prob=p) for reply, p in zip((won, lost), drawn, strict=True)
        )
        pairs.append(PreferencePair(chosen=(chosen,), rejected=(rejected,), margin=0.5, task=str(node), node=node))
    models = Models(BestOfQSettings(model=ModelSettings(path=str(folder / "weights"), dialect="composite")))
    write_pairs(folder / "pairs.parquet", pairs, source(models))
    done = CliRunner().invoke(app, arguments(folder, "alone"), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return folder


def arguments(work: Path, out: str, *more: str) -> list[str]:
    learning = {"lr": 1e-3, "batch_size": BATCH, "precision": "float32", "checkpoint_every": 5}
    settings = ("model.dialect=composite", *(f"agent_q.dpo.{name}={value}" for name, value in learning.items()), *more)
    files = ["--pairs", str(work / "pairs.parquet"), "--model", str(work / "weights"), "--out", str(work / out)]
    return ["tune", *files, *(word for setting in settings for word in ("--set", setting))]


def accelerate_launch(words: list[str]) -> None:
    launch_command(launch_command_parser().parse_args(words))


def launching(file: str, *command: str) -> list[str]:
    return ["--config_file", str(FILES / file), "--main_process_port", "0", *command]


def kill_after(process: Forked, out: Path, step: int) -> None:
    """All its processes, once a checkpoint after `step` is there."""
    try:
        while not [at for at in out.glob(".training/step-*") if int(at.name.removeprefix("step-")) >= step]:
            assert process.runs, process.said
            time.sleep(0.002)
    finally:
        if process.runs:
            for one in psutil.Process(process.pid).children(recursive=True):  # a killed launcher leaves them behind
                one.kill()
        process.kill()


def check_same(work: Path, out: str, one: str = "alone") -> None:
    """Of two folders of `work`: all weights have moved, and moved alike."""
    found, expected = (AutoModelForCausalLM.from_pretrained(work / name / "model") for name in (out, one))
    before = load_file(work / "weights" / "model.safetensors")
    for name, weight in expected.state_dict().items():
        if name in before:
            assert (weight - before[name]).abs().max() > 1e-3
            torch.testing.assert_close(found.state_dict()[name], weight, rtol=1e-3, atol=1e-5)
    PreTrainedTokenizerFast.from_pretrained(work / out / "model")


@pytest.fixture(scope="module")
def killed(work: Path) -> Path:
    """A run of two processes, killed in the middle. Before it they learned adapters, to the end."""
    commands = (*arguments(work, "ddp", ADAPTERS), "then", *arguments(work, "killed"))
    launched = Forked(work / "log", launch_forks, accelerate_launch, launching("ddp.yaml", str(COMMANDS), *commands))
    kill_after(launched, work / "killed", step=5)
    assert not (work / "killed" / "model").exists()
    return work / "killed"


@pytest.fixture(scope="module")
def sharded(work: Path, killed: Path) -> str:
    """What is said where shards of the model go on with a copy of the killed run, then learn adapters, then by RFT."""
    shutil.copytree(killed, work / "sharded")
    rft = ("reinforce", *(str(work / name) for name in ("pairs.parquet", "weights", "rft")))
    commands = (*arguments(work, "sharded"), "then", *arguments(work, "fsdp", ADAPTERS), "then", *rft)
    words = launching("fsdp.yaml", str(COMMANDS), "sharded", *commands)
    launched = Forked(work / "said", launch_forks, accelerate_launch, words, COLUMNS="200")
    assert launched.wait() == 0, launched.said
    return launched.said


def test_two_processes_go_on_and_learn_what_one_does(work: Path, killed: Path) -> None:
    shutil.copytree(killed, work / "two")
    words = launching("ddp.yaml", "-m", "bestofq.cli.main", *arguments(work, "two"))
    launched = Forked(work / "of two", launch_forks, accelerate_launch, words, COLUMNS="200")
    code, said = launched.wait(), launched.said
    assert code == 0, said
    assert said.count("the tuned model: ") == 1  # the second process is silent
    assert f"{NODES // BATCH}/{NODES // BATCH}" in said
    check_same(work, "two")


def test_shards_of_the_model_go_on_and_learn_what_the_whole_does(work: Path, sharded: str) -> None:
    assert sharded.count("the tuned model: ") == 2  # once a command
    check_same(work, "sharded")


def test_shards_of_the_model_learn_by_rft_what_the_whole_does(work: Path, sharded: str) -> None:
    reinforce(str(work / "pairs.parquet"), str(work / "weights"), str(work / "rft-alone"))
    check_same(work, "rft", "rft-alone")


def test_one_process_goes_on_with_what_two_began(work: Path, killed: Path) -> None:
    shutil.copytree(killed, work / "one")
    done = CliRunner().invoke(app, arguments(work, "one"), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    check_same(work, "one")


@pytest.mark.parametrize("two", ["ddp", "fsdp"])
def test_two_processes_learn_the_adapters_that_one_does(
    work: Path, two: str, tmp_path: Path, killed: Path, sharded: str
) -> None:
    done = CliRunner().invoke(app, arguments(work, str(tmp_path / "alone"), ADAPTERS), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found, expected = (
        load_file(folder / "adapter" / "adapter_model.safetensors") for folder in (work / two, tmp_path / "alone")
    )
    assert {*found} == {*expected}
    for name, weight in expected.items():
        if "lora_B" in name:  # which begin at 0
            assert weight.abs().max() > 1e-3
        torch.testing.assert_close(found[name], weight, rtol=1e-3, atol=1e-4)  # of some 1e-2
    assert (work / two / "model").exists() == (two == "ddp")
