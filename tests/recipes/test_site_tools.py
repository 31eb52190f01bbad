"""The sites as trainers of others use them: by TRL's GRPOTrainer, whose model alone is a script, and over OpenEnv's
WebSocket by its own client."""

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
import uvicorn
from tiny_llama import save_instruct_llama
from transformers import AutoTokenizer, LlamaForCausalLM

import bestofq as bq
from bestofq.core.errors import ConfigError, DataError
from examples.trainers.site_tools import ENDED, site_tools

SHOP = bq.load_suite("webshop")


def test_a_row_is_played_to_the_reward_of_the_site() -> None:
    tools = site_tools(SHOP)
    row, other = tools.rows("dev", 2)
    assert row["prompt"][0]["role"] == "user"
    site, beside = tools(), tools()
    first = site.reset(**row)
    assert re.match(r"goal: .+\npage:\n", first)
    assert beside.reset(**other) != first
    goal = first.partition("goal: ")[2].partition("\n")[0]
    page = site.write(1, goal, enter=True)
    assert "Total results" in page
    assert "There is no element [99]" in site.click(99)
    assert site.go_back() == first
    assert site.get_reward() == 0
    site.write(1, goal, enter=True)
    opened = site.click(mark_of("$", page))
    assert site.click(mark_of("Buy Now", opened)) == ENDED
    assert 0 < site.get_reward() <= 1
    assert (site.click(1), site.reset(**row)) == (ENDED, first)
    assert site.get_reward() == 0


def test_what_ends_an_episode_without_a_reward() -> None:
    site = site_tools(SHOP)()
    row = site.rows("train", 1)[0]
    site.reset(**row)
    assert (site.answer("done"), site.get_reward()) == (ENDED, 0)
    site.reset(**row)
    said = [site.go_back() for _ in range(SHOP.step_limit)]
    assert [one == ENDED for one in said] == [False] * (SHOP.step_limit - 1) + [True]
    assert site.get_reward() == 0


def test_what_cannot_be_played_is_refused() -> None:
    with pytest.raises(ConfigError, match="webvoyager"):
        site_tools(bq.load_suite("webvoyager"))
    site = site_tools(bq.load_suite("booking"))()
    with pytest.raises(DataError, match="rows"):
        site.reset(prompt="x")
    with pytest.raises(DataError, match="no-such"):
        site.reset(task="no-such")
    with pytest.raises(DataError, match="reset it first"):
        site.click(1)


def mark_of(words: str, page: str) -> int:
    found = re.search(rf"{re.escape(words)}[^\n]*\[(\d+)\]", page)
    assert found
    return int(found[1])


class Shopper(LlamaForCausalLM):  # type: ignore[misc]
    """A model with weights to train, whose replies are a script: search, open the first product, buy it."""

    tokens: Any

    def generate(self, input_ids: torch.Tensor, **_: object) -> torch.Tensor:
        ids = [self.tokens.encode(reply(self.tokens.decode(one))) for one in input_ids]
        longest = max(map(len, ids))
        ends = [one + [self.tokens.eos_token_id] * (1 + longest - len(one)) for one in ids]
        return torch.cat([input_ids, torch.tensor(ends)], dim=1)


def reply(prompt: str) -> str:
    before, _, page = prompt.rpartition("page:\n")
    goal = before.rpartition("goal: ")[2].partition("\n")[0]
    if ENDED in page:
        return "It is bought."
    if "Buy Now" in page:
        call = {"name": "click", "arguments": {"mark": mark_of("Buy Now", page)}}
    elif "$" in page:
        call = {"name": "click", "arguments": {"mark": mark_of("$", page)}}
    else:
        call = {"name": "write", "arguments": {"mark": 1, "text": goal, "enter": True}}
    return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"


@pytest.mark.filterwarnings("ignore")
def test_trl_trains_in_it(tmp_path: Path) -> None:
    """GRPO of two tasks: TRL makes the tools of the class, calls them as the model says, and logs the site's reward."""
    import datasets  # it and TRL take seconds to import
    import trl
    from trl.chat_template_utils import qwen2_5_chat_template

    tools = site_tools(SHOP)
    rows = tools.rows("train", 2)
    save_instruct_llama(tmp_path / "model", qwen2_5_chat_template)
    tokens, model = AutoTokenizer.from_pretrained(tmp_path / "model"), Shopper.from_pretrained(tmp_path / "model")
    model.tokens, model.config.max_position_embeddings = tokens, 32_768  # tokens are bytes: pages are long
    arguments = trl.GRPOConfig(
        output_dir=str(tmp_path / "out"),
        per_device_train_batch_size=4,
        num_generations=2,
        max_steps=1,
        max_completion_length=20_000,
        logging_steps=1,
        use_cpu=True,
        bf16=False,
        report_to=[],
        disable_tqdm=True,
    )
    trainer = trl.GRPOTrainer(
        model,
        args=arguments,
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokens,
        environment_factory=tools,
    )
    trainer.train()
    expected = []
    for row in rows:
        site = tools()
        page = site.reset(**row)
        while page != ENDED:
            call = json.loads(reply(page).split("\n")[1])
            page = getattr(site, call["name"])(**call["arguments"])
        expected.append(site.get_reward())
    logged = trainer.state.log_history[0]
    assert sum(expected) > 0
    assert logged["rewards/WebshopTools/mean"] == pytest.approx(sum(expected) / 2)
    assert logged["tools/call_frequency"] == 3


# ---- OpenEnv


@pytest.fixture
def served() -> Iterator[str]:
    pytest.importorskip("openenv", reason="the package openenv is not installed (extra openenv)")
    from examples.trainers.openenv_site import site_app

    server = uvicorn.Server(uvicorn.Config(site_app(SHOP), port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.mark.filterwarnings("ignore")
def test_an_openenv_client_plays_it(served: str) -> None:
    from openenv.core.generic_client import GenericEnvClient

    with GenericEnvClient(base_url=served).sync() as one, GenericEnvClient(base_url=served).sync() as other:
        begun = one.reset(split="dev", index=1, episode_id="mine")
        goal = begun.observation["goal"]
        assert (begun.done, begun.observation["url"]) == (False, "/")
        assert other.reset(split="dev", index=0).observation["goal"] != goal
        found = one.step({"command": f'write [1] "{goal}" enter'}).observation["text"]
        assert "jump" in one.step({"command": "jump"}).observation["error"]
        opened = one.step({"command": f"click [{mark_of('$', found)}]"}).observation["text"]
        bought = one.step({"command": f"click [{mark_of('Buy Now', opened)}]"})
        assert bought.done
        assert 0 < bought.reward <= 1
        state = one.state()
        assert (state["episode_id"], state["step_count"]) == ("mine", 4)
        assert one.reset(task=state["task"]).observation["goal"] == goal
        assert other.state()["step_count"] == 0
        with pytest.raises(RuntimeError, match="dev tasks, from 0 on"):
            one.reset(split="dev", index=10**6)
    assert [split["name"] for split in httpx.get(f"{served}/webshop/splits").json()] == ["train", "dev", "test"]
    assert httpx.post(f"{served}/webshop/task", json={"split": "dev", "index": 1}).json()["task"]["goal"] == goal
