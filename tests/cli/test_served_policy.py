"""A served model is searched with, and its own weights are tuned on the trees: `search --base-url`, `pairs`, `tune`."""

import asyncio
import json
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from accelerate.commands.launch import launch_command, launch_command_parser
from broken_server import BrokenServer
from forked import Forked, launch_forks
from launched_commands import reinforce
from safetensors.torch import load_file
from tiny_llama import TEMPLATE, save_llama
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.config.agents import make_proposer
from bestofq.config.context import open_suite
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings, ModelSettings
from bestofq.core.decision import State
from bestofq.core.errors import ConfigError, DataError
from bestofq.core.language import ids_hash
from bestofq.core.preferences import PreferencePair, Turn
from bestofq.envs.serving import serve_app
from bestofq.learning.shared_prefix import Branches, reply_log_probs
from bestofq.models.chat import ChatConfig
from bestofq.models.local import LocalModel
from bestofq.recipes.policy_training import policy_prompt, source
from bestofq.store.pairs import read_pairs, write_pairs
from bestofq_sites.shipped import POCKET, POCKET_AGENTQ
from examples.serving.serve_model import model_app

CONFIG = Path(__file__).parents[2] / "experiments" / "agentq-open" / "config.toml"
DPO: dict[str, Any] = {
    "agent_q.dpo.lr": 1e-3,
    "agent_q.dpo.batch_size": 4,
    "agent_q.dpo.precision": "float32",
    "agent_q.dpo.device": "cpu",
    "model.precision": "float32",
}


async def command(name: str, store: Path, *more: str, **chosen: Any) -> str:
    """`bestofq NAME` by the study's settings, in the shop, to its end; what it said."""
    words = [word for key, value in chosen.items() for word in ("--set", f"{key}={value}")]
    run = [name, "webshop", "--config", str(CONFIG), "--store", str(store), *more, *words]
    done = await asyncio.to_thread(CliRunner().invoke, app, run, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


async def search(store: Path, url: str, weights: Path, tasks: int, *more: str, **chosen: Any) -> str:
    size = {"agent_q.search.iterations": 6, "agent_q.search.candidates": 3}
    settings = {"endpoints.chat.base_url": url, "model.path": weights} | size | chosen
    return await command("search", store, "--tasks", str(tasks), *more, **settings)


async def pairs(store: Path, weights: Path) -> list[PreferencePair]:
    file = store / "pairs.parquet"
    await command("pairs", store, "--out", str(file), "--model", str(weights), **{"agent_q.threshold": 0.05})
    return read_pairs(file)


async def check_tuned(store: Path, weights: Path) -> None:
    """DPO on the pairs changes the weights that were served, and they load."""
    files = ("--pairs", str(store / "pairs.parquet"), "--out", str(store / "t"), "--model", str(weights))
    await command("tune", store, *files, **DPO)
    before, after = (load_file(folder / "model.safetensors") for folder in (weights, store / "t" / "model"))
    assert any((after[name] - weight).abs().max() > 1e-5 for name, weight in before.items())
    AutoModelForCausalLM.from_pretrained(store / "t" / "model")
    PreTrainedTokenizerFast.from_pretrained(store / "t" / "model")


@pytest.fixture(scope="module")
def instructed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with random weights and a chat template of its own."""
    folder = tmp_path_factory.mktemp("instructed") / "tiny"
    tokenizer = PreTrainedTokenizerFast.from_pretrained(POCKET)
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(0)
    save_llama(folder, tokenizer, max_position_embeddings=8192)
    return folder


def said(command: str, plan: str = "") -> str:
    return f"{plan}THOUGHT: so\nCOMMANDS: {command}\nEXPLANATION: then\nSTATUS: CONTINUE"


def shopper(request: Mapping[str, Any]) -> str:
    """Searches for words of the task, opens a result, buys or chooses; by the seed. Ranks the first highest."""
    system, user, *_ = (message["content"] for message in (*request["messages"], {"content": ""}))
    if not user:
        return "42"  # asked for its tokens
    if '"best"' in system:
        return json.dumps({"best": 1})
    page, draw = user.rpartition("Current page: ")[2], int(request.get("seed", 0))
    marks = re.findall(r"\[(\d+)\]", page)
    if 'Search: ""' in page:
        return said(f'TYPE [1] "{re.findall(r"[a-z]{5,}", user)[draw % 5]}"', "PLAN: search\n")
    if "Buy Now" in page:
        return said(f"CLICK [{marks[2:][draw % len(marks[2:])]}]")
    return said("CLICK [2]" if "Search: " in page and "$" not in page else f"CLICK [{marks[draw % len(marks)]}]")


def server(model: LocalModel, **settings: Any) -> BrokenServer:
    """vLLM's dialect over a script, with the tokens of the checkpoint."""

    def tokens(request: Mapping[str, Any], reply: str) -> tuple[Sequence[int], Sequence[int]]:
        messages = request["messages"]
        prompt = model.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        return prompt, [*model.encode_plain(reply), model.end]

    options: dict[str, Any] = {"tokens": tokens, "log_prob": -0.5}
    return BrokenServer(shopper, **(options | settings))


async def test_an_instruct_model_is_tuned_on_what_its_server_drew(instructed: Path, tmp_path: Path) -> None:
    model = LocalModel.load(instructed, device="cpu", precision="float32")
    async with server(model) as served:
        await search(tmp_path, served.base_url, instructed, tasks=2)
    asked = {json.dumps(request["messages"]) for request in served.requests if "return_token_ids" in request}
    found = await pairs(tmp_path, instructed)
    assert found
    for pair in found:
        (chosen,), (rejected,) = pair.chosen, pair.rejected
        assert chosen.prompt_ids == rejected.prompt_ids
        assert chosen.log_prob == -0.5 * len(chosen.reply_ids)
        assert "COMMANDS: " in model.tokenizer.decode(chosen.reply_ids)
    assert len(asked) > len({pair.chosen[0].prompt_ids for pair in found})
    await check_tuned(tmp_path, instructed)

    other = tmp_path / "other"
    tokenizer = PreTrainedTokenizerFast.from_pretrained(instructed)
    tokenizer.chat_template = TEMPLATE.replace("assistant", "answer")
    model.model.save_pretrained(other)
    tokenizer.save_pretrained(other)
    with pytest.raises(DataError, match=r"chat template of .*other .*--model"):
        await pairs(tmp_path, other)
    async with server(model) as served:
        with pytest.raises(ConfigError, match=r"chat template of other.*model\.path"):
            await search(tmp_path / "more", served.base_url, other, tasks=1)
        assert len(served.requests) == 1


async def test_what_our_own_server_tells_is_what_the_weights_say() -> None:
    model = LocalModel.load(POCKET_AGENTQ, device="cpu", precision="float32")
    async with serve_app(model_app(model)) as url:
        chat = ChatConfig(model="pocket-agentq", base_url=f"{url}/v1", token_ids=True)
        model.name = chat.model
        local = ModelSettings(path=chat.model, dialect="composite")
        models = Models(BestOfQSettings(model=local, endpoints={"chat": chat}))
        async with open_suite(models) as suite:
            await models.check_token_ids()
            (task,) = await suite.tasks("train", 1)
            state = State(task=task, observation=await (await suite.make_env()).reset(task, seed=task.seed))
            offered = await make_proposer(models).propose(state, 2)
    prompt = model.encode(*policy_prompt(models, state))
    for candidate in offered.candidates:
        assert candidate.prompt_hash == ids_hash(prompt)
        assert candidate.reply_ids is not None
        [log_prob] = reply_log_probs(model.model, [Branches(tuple(prompt), [candidate.reply_ids])], share=False)
        assert float(log_prob) == pytest.approx(candidate.log_prob, abs=1e-3)


async def test_without_a_server_s_tokens_nothing_is_searched_or_paired(instructed: Path, tmp_path: Path) -> None:
    model = LocalModel.load(instructed, device="cpu", precision="float32")
    async with server(model, refuses=["return_token_ids"]) as served:
        where = (tmp_path / "store", served.base_url, instructed)
        with pytest.raises(ConfigError, match="return_token_ids"):
            await search(*where, tasks=2)
        assert len(served.requests) == 1
        with pytest.raises(ConfigError, match=r"model\.dialect=composite"):
            await search(*where, tasks=2, **{"model.dialect": "commands"})
        assert not (tmp_path / "store").exists()
        await search(*where, tasks=1, **{"endpoints.chat.token_ids": "false"})
    with pytest.raises(DataError, match="token_ids=true"):
        await pairs(tmp_path / "store", instructed)


FILES = Path(__file__).parents[2] / "examples" / "accelerate"
COMMANDS = Path(__file__).with_name("launched_commands.py")
ADAPTERS = "agent_q.dpo.lora=4"
NODES, BATCH = 60, 4


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model, pairs that it drew, and `alone`, what one process learns from them."""
    folder = tmp_path_factory.mktemp("work")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(POCKET)
    torch.manual_seed(0)
    model = save_llama(folder / "weights", tokenizer, hidden_size=16, num_hidden_layers=2)
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
def test_two_processes_learn_adapters_as_one_does(
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
