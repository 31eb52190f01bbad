"""`bestofq search` as a user meets it: killed in the middle, it goes on from the rollouts that were stored."""

import asyncio
import json
import re
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from forked import Forked
from typer.testing import CliRunner

from bestofq.cli.commands import app
from bestofq.cli.shared import store_at
from bestofq.core.errors import BudgetError
from bestofq.core.tree import SearchTree
from bestofq.reports.searches import search_row, search_table
from bestofq.store.location import Location
from bestofq.store.store import Store
from bestofq.testing.fault_server import FaultServer

TASKS, ROLLOUTS, KILLS = 2, 6, 4


def shopper(request: Mapping[str, Any]) -> str:
    """Searches for words of the task, opens one of the results, chooses options or buys; ranks the last highest."""
    system, user, *_ = (message["content"] for message in request["messages"])
    if '"best"' in system:
        return json.dumps({"best": len(re.findall(r"^\d+\. ", system, re.MULTILINE))})
    page = user.rpartition("Current page: ")[2]
    marks = [int(mark) for mark in re.findall(r"\[(\d+)\]", page)]
    if "[1]" in page and "Search: " in page:
        words = re.findall(r"[a-z]{5,}", user)[:6]
        actions = [{"type": "write", "element": 1, "text": word, "enter": True} for word in words]
    elif "Buy Now" in page:
        actions = [{"type": "click", "element": mark} for mark in marks[2:]]
    else:
        actions = [{"type": "click", "element": mark} for mark in reversed(marks)]
    return json.dumps({"candidates": [{"thought": "so", "note": "", "action": action} for action in actions]})


def at_a_loss(request: Mapping[str, Any]) -> str:
    """The same, but it cannot say which candidate is best."""
    asked_for_the_best = '"best"' in request["messages"][0]["content"]
    return "They are all fine." if asked_for_the_best else shopper(request)


def arguments(folder: Path, server: FaultServer, rollouts: int = ROLLOUTS) -> list[str]:
    settings = {
        "endpoints.chat.model": "m",
        "endpoints.chat.base_url": server.base_url,
        "suite.seed": "3",
        "agent_q.search.iterations": str(rollouts),
        "agent_q.search.candidates": "3",
    }
    chosen = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return ["search", "webshop", "--store", str(folder), "--tasks", str(TASKS), *chosen]


async def search(folder: Path, server: FaultServer, rollouts: int = ROLLOUTS) -> tuple[list[SearchTree], str]:
    """The command in this process, to its end: the trees, and what it said."""
    words = arguments(folder, server, rollouts)
    done = await asyncio.to_thread(CliRunner().invoke, app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return stored(folder), done.output


def stored(folder: Path) -> list[SearchTree]:
    with Store.open(folder) as store:
        return list(store.trees.all("search"))


async def killed(folder: Path, server: FaultServer, requests: int) -> None:
    """The command in a process of its own, ended by kill -9 after so many requests to its model."""
    until = len(server.requests) + requests
    process = Forked(folder.with_name("log"), app, arguments(folder, server), OPENAI_API_KEY="none")
    while len(server.requests) < until:
        assert process.runs, process.said
        await asyncio.sleep(0.001)
    assert process.kill() == -signal.SIGKILL
    await server.left()


def calls(trees: list[SearchTree]) -> int:
    return sum(used.calls for tree in trees for used in tree.usage)


def grown(trees: list[SearchTree]) -> list[SearchTree]:
    """All of them but what they took."""
    return [tree.model_copy(update={"usage": ()}) for tree in trees]


async def test_killed_it_ends_in_the_trees_of_one_go_and_asks_again_for_what_was_in_flight(tmp_path: Path) -> None:
    async with FaultServer(shopper) as server:
        whole, said = await search(tmp_path / "once", server)
        assert [tree.visits[0] for tree in whole] == [ROLLOUTS] * TASKS
        assert calls(whole) == len(server.requests)
        before = len(server.requests)
        for _ in range(KILLS):
            await killed(tmp_path / "killed", server, calls(whole) // (KILLS + 1))
        kept = stored(tmp_path / "killed")
        assert 0 < sum(tree.visits[0] for tree in kept) < TASKS * ROLLOUTS
        again, _ = await search(tmp_path / "killed", server)
        in_flight = KILLS * TASKS * 2  # at most: a ranking of three candidates is two requests
        assert calls(whole) <= len(server.requests) - before <= calls(whole) + in_flight
        assert calls(again) == calls(whole)
        assert grown(again) == grown(whole)
        before = len(server.requests)
        assert (await search(tmp_path / "killed", server))[0] == again
        assert len(server.requests) == before
    assert re.search(r"the proposer read [\d,]+ tokens and wrote [\d,]+ \(", said)


async def planned(folder: Path, server: FaultServer, rollouts: int) -> int:
    """How many trees `--dry-run` counts as finished."""
    words = [*arguments(folder, server, rollouts), "--dry-run"]
    done = await asyncio.to_thread(CliRunner().invoke, app, words, env={"COLUMNS": "200"})
    return int(re.findall(rf"search +train +{TASKS} +{rollouts} +3 +(\d+)", done.output)[0])


def test_replies_of_a_first_rollout_that_was_not_finished_are_kept(tmp_path: Path) -> None:
    with suppress(BudgetError), store_at(Location.of(tmp_path / "new")) as store:
        asyncio.run(store.keep_note("replies", "[]"))
        raise BudgetError
    with Store.open(tmp_path / "new", read_only=True) as store:
        assert store.note("replies") == "[]"


async def test_rankings_that_broke_off_are_stored_with_their_tree_and_told(tmp_path: Path) -> None:
    def broken_off(trees: list[SearchTree]) -> list[tuple[int, int]]:
        return [(used.unusable or 0, used.calls) for tree in trees for used in tree.usage if used.role == "critic"]

    async with FaultServer(at_a_loss) as server:
        begun, _ = await search(tmp_path, server, 2)
        trees, said = await search(tmp_path, server, 4)  # it goes on
        assert [await planned(tmp_path, server, rollouts) for rollouts in (4, 5)] == [TASKS, 0]
    counts = broken_off(trees)
    assert len(counts) == TASKS
    for (unusable, calls), (before, _) in zip(counts, broken_off(begun), strict=True):
        assert unusable == calls > before > 0
    lost = sum(unusable for unusable, _ in counts)
    assert f"; {lost} of its {lost} replies named no candidate" in " ".join(said.split())
    table = search_table([search_row("search", trees, alpha=0.5, threshold=0.2)])
    assert dict(zip(table.heads, table.texts()[0], strict=True))["unusable"] == str(lost)
