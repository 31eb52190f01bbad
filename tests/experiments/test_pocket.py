"""Oracle, demonstrations, tokenizer, and the model they make."""

import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from bestofq.agents.dialects.commands import parse_action, parse_reply
from bestofq.agents.dialects.composite import composite_prompt, parse_composite
from bestofq.agents.prompting import propose_prompt
from bestofq.core.actions import action_text
from bestofq.core.decision import State
from bestofq.core.errors import CheckpointError, InputError
from bestofq.core.language import Request, user
from bestofq.core.observation import Element, Observation, Task
from bestofq.envs.miniwob.settings import HELD_OUT
from bestofq.envs.miniwob.suite import SEEDS
from bestofq.models.local import LocalModel
from bestofq.models.shipped import find_model
from bestofq_sites.booking.suite import Booking
from bestofq_sites.local_site.text import TextEnv
from bestofq_sites.webshop.suite import WebShop, synthetic_suite
from bestofq_sites.webshop.synthetic import SyntheticConfig
from experiments.oracles.webshop import Oracle
from experiments.pocket_models import demonstrations
from experiments.pocket_models.composite import CompositeDemonstrations, walk_booking, walk_shop
from experiments.pocket_models.demonstrations import DemonstrationConfig, demonstrate
from experiments.pocket_models.examples import Example
from experiments.pocket_models.making import LOG, PocketConfig, make_pocket_model
from experiments.pocket_models.miniwob_demonstrations import FIRST_SEED, MiniWobDemonstrations, demonstrate_miniwob
from experiments.pocket_models.sft import SFTConfig, TokenizedExample, train_language_model

COMMANDED = ' search for it\nwrite [1] "silent computer mouse" enter'
COMPOSED = (
    ' search; open one that fits; buy it\nTHOUGHT: search for it\nCOMMANDS: TYPE [1] "silent computer mouse"\n'
    "EXPLANATION: type silent computer mouse\nSTATUS: CONTINUE"
)
DEMONSTRATIONS = DemonstrationConfig(catalogue_seeds=(1,), miniwob=MiniWobDemonstrations(share=0))


few_walks = pytest.fixture(autouse=True)(lambda monkeypatch: monkeypatch.setattr(demonstrations, "WALKS", 15))


@pytest.fixture(scope="module")
def suite() -> WebShop:
    return synthetic_suite(SyntheticConfig(products_per_category=20))


async def test_the_oracle_earns_everything(suite: WebShop) -> None:
    for task in suite.tasks("dev")[:40]:
        env, oracle = TextEnv(suite), Oracle(suite, suite.goals[task.id])
        seen = await env.reset(task, seed=0)
        for _ in range(15):
            result = await env.step(oracle.advise(suite.server(task.split), env.view, seen).action)
            seen = result.observation
            if result.terminated:
                break
        assert result.reward == 1.0, task.goal


async def test_demonstrations_are_replies_an_agent_could_give() -> None:
    examples = await demonstrate(DEMONSTRATIONS, 80, 0)
    again = await demonstrate(DEMONSTRATIONS, 80, 0)
    assert examples == again
    kinds: Counter[str] = Counter()
    for example in examples:
        prompt, reply = example[0]
        kind = prompt.rpartition("\n")[2]
        kinds[kind] += 1
        if kind == "best:":
            assert 1 <= int(reply) <= prompt.count("\n") + 1
        elif kind == "so:":
            assert all(turn.prompt.rpartition("\n")[2] == "so:" and turn.reply.strip() for turn in example)
        else:
            marks = range(1, prompt.count(" [") + 1)
            page = Observation(
                url="/", title="", text="", elements=tuple(Element(mark=m, role="link", name=str(m)) for m in marks)
            )
            assert parse_reply(reply, page).thought
    assert min(kinds[kind] for kind in ("next:", "best:", "so:")) / len(examples) > 0.05


def tiny() -> LlamaForCausalLM:
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=16, tie_word_embeddings=True, **shape))


GPU = pytest.param(
    "cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")]
)


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_training_lowers_the_loss_of_replies(device: str) -> None:
    examples = [TokenizedExample([1, n, 3, n, 2], [(3, 5)]) for n in range(4, 16)] * 8
    rows = []
    config = SFTConfig(steps=150, batch_tokens=16 * 8, widths=(8,), compile=False, warmup_steps=5)
    train_language_model(tiny().to(device), examples, config, rows.append, report_every=10)
    assert rows[-1].loss_reply < 0.2 * rows[0].loss_reply


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_tiny_pocket_model_from_nothing_loads_and_generates(tmp_path: Path) -> None:
    size: Any = {"examples": 60, "vocabulary": 500, "width": 32, "layers": 1, "heads": 2, "feed_forward": 64}
    training = SFTConfig(steps=3, batch_tokens=1024, compile=False)
    config = PocketConfig(demonstrations=DEMONSTRATIONS, training=training, **size)
    make_pocket_model(config, tmp_path)
    log = json.loads((tmp_path / LOG).read_text())
    assert log["rows"][-1]["step"] == 3
    assert PocketConfig.model_validate(log["config"]) == config  # what repeats it
    model = LocalModel.load(tmp_path, device="cpu")
    assert len(model.generate_batch([Request(messages=user("goal: a"), n=2, max_tokens=4)])[0].replies) == 2

    further = config.model_copy(update={"base": tmp_path, "vocabulary": 400, "layers": 2})
    make_pocket_model(further, tmp_path / "further")
    taught = LocalModel.load(tmp_path / "further", device="cpu")
    assert taught.tokenizer.get_vocab() == model.tokenizer.get_vocab()
    before, after = model.model.get_input_embeddings().weight, taught.model.get_input_embeddings().weight
    assert 0 < (before - after).abs().max() < 0.1  # three steps away, not drawn anew
    with pytest.raises(CheckpointError, match="is no checkpoint to go on from"):
        make_pocket_model(config.model_copy(update={"base": tmp_path / "none"}), tmp_path / "no")


@pytest.mark.parametrize(
    ("name", "prompt_of", "says"),
    [
        ("pocket", propose_prompt, COMMANDED),
        ("pocket-web", propose_prompt, COMMANDED),
        ("pocket-agentq", composite_prompt, COMPOSED),
    ],
)
def test_shipped_models_are_small_and_know_their_shop(name: str, prompt_of: Callable[[State], str], says: str) -> None:
    model = LocalModel.load(find_model(name), device="cpu")
    parameters = sum(p.numel() for p in model.model.parameters())
    assert 3_000_000 <= parameters <= 10_000_000
    goal = "i need a silent computer mouse, and price lower than 40 dollars"
    task = Task(id="t", suite="s", goal=goal, start_url="shop:/")
    page = Observation(url="shop:/", title="WebShop", text='WebShop\nSearch: "" [1] Search [2]', elements=())
    prompt = prompt_of(State(task=task, observation=page))
    reply = model.generate_batch([Request(messages=user(prompt))])[0].replies[0]
    assert reply.text == says


ANY = Observation(
    url="u", title="t", text="", elements=tuple(Element(mark=m, role="link", name=str(m)) for m in range(1, 60))
)


async def walks(suite: str, skill: float, count: int = 12, **more: float) -> list[list[Example]]:
    config = CompositeDemonstrations(noise=0.0, skill=skill, **more)
    rng = random.Random(0)
    found: list[AsyncIterator[Example]] = []
    if suite == "booking":
        booking = Booking(seed=1)
        found = [walk_booking(config, booking, task, rng) for task in booking.tasks("train", count)]
    else:
        shop = synthetic_suite(SyntheticConfig(seed=1))
        found = [walk_shop(config, shop, shop.server("train"), task, rng) for task in shop.tasks("train", count)]
    return [[example async for example in walk] for walk in found]


@pytest.mark.parametrize("suite", ["booking", "webshop"])
async def test_each_reply_follows_its_prompt_and_is_read_back(suite: str) -> None:
    for walk in await walks(suite, 1.0):
        for number, ((prompt, reply),) in enumerate(walk):
            assert prompt.endswith("PLAN:" if number == 0 else "THOUGHT:")
            candidate = parse_composite(reply, ANY)
            assert bool(candidate.plan) == (number == 0)
            assert candidate.thought
            assert candidate.explanation
            if number:
                assert f"plan: {parse_composite(walk[0][0].reply, ANY).plan}" in prompt


NAMES = ("click-button", "click-checkboxes", "enter-text")
CONFIG = MiniWobDemonstrations(instances=1, max_steps=8, names=NAMES, noise=0.5, pick_share=1, review_share=1)
installed = pytest.mark.skipif(find_spec("miniwob") is None, reason="MiniWoB++'s pages are not installed")


def proposals(examples: list[Example]) -> dict[str, str]:
    return {turns[0].prompt: turns[0].reply for turns in examples if turns[0].prompt.endswith("\nnext:")}


@installed
async def test_examples_are_the_same_however_many_pages_play() -> None:
    one = await demonstrate_miniwob(CONFIG, 0, at_once=1)
    assert one == await demonstrate_miniwob(CONFIG, 0, at_once=3)
    assert {turns[0].prompt.rpartition("\n")[2] for turns in one} == {"next:", "best:", "so:"}
    for turns in one:
        if turns[0].prompt.endswith("\nbest:"):
            assert 1 <= int(turns[0].reply) <= 3
    for reply in proposals(one).values():
        thought, command = reply.strip().split("\n")
        assert thought
        assert action_text(parse_action(command)) == command


@installed
async def test_only_train_seeds_of_tasks_not_held_out() -> None:
    assert FIRST_SEED in SEEDS["train"]
    for family in HELD_OUT.values():
        with pytest.raises(InputError, match=family[0]):
            await demonstrate_miniwob(MiniWobDemonstrations(names=family), 0)
