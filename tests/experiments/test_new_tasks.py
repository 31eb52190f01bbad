"""`python -m experiments new-tasks` as a user runs it: a scripted writer behind HTTP, seeds of our own."""

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bestofq.core.errors import BestOfQError, ConfigError
from bestofq.envs.webvoyager.settings import WebVoyagerSettings
from bestofq.envs.webvoyager.source import load_entries
from bestofq.envs.webvoyager.suite import WebVoyager
from bestofq.testing.fault_server import FaultServer
from experiments.__main__ import app
from experiments.new_tasks.files import TaskFile

CITIES = ("Oslo", "Lima", "Cairo", "Quito", "Hanoi", "Perth", "Dakar", "Turin", "Osaka", "Porto", "Malmo", "Tunis")
PARTS = (
    ("Show", "Look for", "List all", "Compare some", "Which are the", "Name three"),
    ("cheap trips", "night departures", "refundable fares", "family cabins", "short crossings", "quiet seats"),
    ("for two adults", "with breakfast", "without a change", "sorted by price", "under a day", "with good reviews"),
    ("and tell who runs them", "then open the first", "and give the hours", "then name the lowest", "and count them"),
)
SEEDS = (
    "Find the lowest fare from all eligible one-way flights for 1 adult from JFK to Heathrow on Jan. 22.",
    "Search for flights from Tel Aviv to Venice on December 19, returning on December 26, and select First Class.",
    "Find a round trip from Phoenix to Miami and show the plane tickets that do not exceed $1320.",
)
DOMAINS = ("Sky=https://www.sky.example/", "Mondo=https://mondo.example", "Cruise Desk=https://cruise.example/find")


@pytest.fixture
def seeds(tmp_path: Path) -> Path:
    tasks = [
        {"web_name": "Air Flights", "id": f"Air Flights--{n}", "ques": text, "web": "https://air.example/"}
        for n, text in enumerate(SEEDS)
    ]
    tasks.append(
        {"web_name": "Soup", "id": "Soup--0", "ques": "Find a soup of the day.", "web": "http://soup.example/"}
    )
    file = tmp_path / "seeds.jsonl"
    file.write_text("".join(json.dumps(task) + "\n" for task in tasks), "utf-8")
    return file


def writer(request: Mapping[str, Any]) -> str:
    """As many tasks as are asked for, drawn by the request's seed."""
    rng = random.Random(request["seed"])
    wanted = int(re.findall(r"Write (\d+) new tasks", user_of(request))[0])
    return reply(*(task(rng) for _ in range(wanted)))


def task(rng: random.Random) -> str:
    what, which, how, end = (rng.choice(part) for part in PARTS)
    start, goal = rng.sample(CITIES, 2)
    return f"{what} {which} from {start} to {goal} on May {rng.randrange(1, 29)}, 2027, {how}, {end}."


def reply(*tasks: object) -> str:
    return json.dumps({"tasks": tasks})


def user_of(request: Mapping[str, Any]) -> str:
    text = request["messages"][1]["content"]
    assert isinstance(text, str)
    return text


async def tasks(server: FaultServer, seeds: Path, *more: str, domains: tuple[str, ...] = DOMAINS) -> tuple[int, str]:
    """Exit code and words of the command, which runs in a thread beside the endpoint's loop."""
    out = seeds.parent / "new.jsonl"
    command = ["new-tasks", "--data", str(seeds), "--seed-domain", "Air Flights", "--model", "writer"]
    command += ["--out", str(out)]
    command += ["--base-url", server.base_url, "--today", "2026-11-21"]
    command += [word for domain in domains for word in ("--domain", domain)]
    done = await asyncio.to_thread(CliRunner().invoke, app, [*command, *more])
    match done.exception:
        case BestOfQError() as error:
            return error.exit_code, str(error)
        case None | SystemExit():
            return done.exit_code, " ".join(done.output.split())
        case error:
            raise error


def log_of(seeds: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (seeds.parent / "new.refused.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.slow
async def test_three_sites_get_their_tasks_and_the_suite_reads_them(seeds: Path) -> None:
    out = seeds.parent / "new.jsonl"
    async with FaultServer(writer, {"500": 0.1}, seed=2) as server:
        code, said = await tasks(server, seeds, "--count", "12", "--set", "chat.usd_in=1", "--set", "chat.usd_out=2")
        assert code == 0, said
        first = server.requests[0]
        assert len({request["seed"] for request in server.requests}) > 5
        again, nothing = await tasks(server, seeds, "--count", "12")
    suite = WebVoyager(WebVoyagerSettings(data=out))
    assert Counter(entry.web_name for entry in load_entries(out)) == {"Cruise Desk": 12, "Mondo": 12, "Sky": 12}
    assert {task.id for task in suite.list_tasks()} == {
        f"{name}--{n}" for name in ("Cruise Desk", "Mondo", "Sky") for n in range(12)
    }
    [cruise] = {task.start_url for task in suite.list_tasks() if task.id.startswith("Cruise Desk")}
    assert cruise == "https://cruise.example/find"
    lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert {line["model"] for line in lines} == {"writer"}
    assert all(line["seeds"] and set(line["seeds"]) <= {f"Air Flights--{n}" for n in range(3)} for line in lines)
    assert "2026-12-21" in first["messages"][0]["content"]
    assert any(seed in user_of(first) for seed in SEEDS)
    assert "Soup" not in user_of(first)
    assert (first["response_format"]["type"], first["temperature"]) == ("json_schema", 1.0)
    assert "Sky: 12 of 12 tasks, 0 of them before" in said
    assert re.search(r"the writer read [\d,]+ tokens and wrote [\d,]+ \(0\.\d+ USD\)", said)
    assert again == 0
    assert "Sky: 12 of 12 tasks, 12 of them before Mondo:" in nothing


async def test_a_budget_ends_the_writing_and_the_rest_is_written_later(seeds: Path) -> None:
    out, priced = seeds.parent / "new.jsonl", ("--set", "chat.usd_in=1", "--set", "chat.usd_out=2")
    async with FaultServer(writer) as server:
        code, said = await tasks(server, seeds, "--count", "12", *priced, "--budget", "0.0001")
        written = len(out.read_text("utf-8").splitlines())
        asked = len(server.requests)
        unpriced, why = await tasks(server, seeds, "--count", "12", "--budget", "1")
        assert len(server.requests) == asked
        rest, _ = await tasks(server, seeds, "--count", "12", *priced, "--budget", "1")
    assert (code, unpriced, rest) == (1, 2, 0)
    assert "--budget allows 0.0001" in said
    assert "usd_in" in why
    assert 0 < written < 36
    assert len(out.read_text("utf-8").splitlines()) == 36


def test_an_empty_address_of_an_endpoint_is_refused(seeds: Path) -> None:
    command = [
        "new-tasks",
        "--data",
        str(seeds),
        "--seed-domain",
        "Air Flights",
        "--domain",
        DOMAINS[0],
        "--model",
        "m",
    ]
    done = CliRunner().invoke(
        app, [*command, "--model", "m", "--base-url", "", "--out", str(seeds.parent / "new"), "--dry-run"]
    )
    assert isinstance(done.exception, ConfigError)
    assert "'' is no address of an endpoint" in str(done.exception)


async def test_a_dry_run_asks_nobody(seeds: Path) -> None:
    async with FaultServer(writer) as server:
        code, said = await tasks(server, seeds, "--count", "12", "--dry-run")
        assert not server.requests
    assert (code, (seeds.parent / "new.jsonl").exists()) == (0, False)
    assert "12 tasks for each of 3 sites" in said


async def test_the_same_seed_gives_the_same_file(seeds: Path) -> None:
    out, found = seeds.parent / "new.jsonl", []
    for seed in ("7", "7", "8"):
        async with FaultServer(writer) as server:
            code, said = await tasks(server, seeds, "--count", "8", "--set", f"seed={seed}")
            assert code == 0, said
        found.append(out.read_bytes())
        out.unlink()
    assert found[0] == found[1] != found[2]


async def test_what_is_refused_is_counted_and_logged(seeds: Path) -> None:
    good = "Compare refundable fares between Oslo and Lima around May 3, 2027."
    bad = {
        "Compare refundable fares between Oslo and Lima around June 9, 2027, on Sky.": "repeated",
        "Find a round trip from Phoenix to Miami, show the plane tickets that do not exceed $900.": "overlapping",
        "Find the house with the red roof in the list of houses to let.": "overlapping",
        "List what Mondo asks for a cabin with a balcony.": "elsewhere",
        "Look up at www.else.com what a cabin with a balcony costs.": "elsewhere",
        "Show trains that leave Perth on May 3, 2025.": "past",
        "Fly.": "malformed",
        "": "malformed",
    }
    more = seeds.parent / "more.jsonl"
    text = "Find the house with the green roof in the list of houses to let."
    kept = {"web_name": "Let", "id": "7", "ques": text, "web": "http://let.example"}
    more.write_text(json.dumps(kept) + "\n", "utf-8")
    once = iter([reply(good, *bad, 7)])
    async with FaultServer(lambda request: next(once, reply())) as server:
        code, said = await tasks(server, seeds, "--held-out", str(more), "--count", "2")
    assert code == 1
    assert [entry.ques for entry in load_entries(seeds.parent / "new.jsonl")] == [good]
    log = [line for line in log_of(seeds) if line["why"] != "unusable"]
    assert {line["ques"]: line["why"] for line in log} == {**bad, "7": "malformed"}
    assert [line["near"] for line in log if line["near"]] == ["Sky--0", "Air Flights--2", "Let--7"]
    assert "accepted: 1, malformed: 3, elsewhere: 2, past: 1, overlapping: 2, repeated: 1" in said
    assert "Air Flights--2 (1), Let--7 (1)" in said


async def test_too_few_are_said_to_be_too_few(seeds: Path) -> None:
    async with FaultServer(lambda request: reply("Show the cheapest trip from Oslo to Lima.")) as server:
        code, said = await tasks(server, seeds, "--count", "3", "--set", "fruitless=2", domains=DOMAINS[:1])
        assert len(server.requests) == 3
    assert code == 1
    assert "Sky lacks 2 of its 3 tasks: 2 requests in a row brought no new one. The same command" in said
    assert len(load_entries(seeds.parent / "new.jsonl")) == 1
    async with FaultServer(writer, {"truncated": 1.0}) as server:
        code, said = await tasks(server, seeds, "--count", "3", domains=DOMAINS[:1])
    assert code == 1
    assert "the reply was cut off after 20 tokens" in said


async def test_bad_replies_are_survived(seeds: Path) -> None:
    script = ("empty", "ok", "nonsense", "truncated", "braces", "refusal", "ok", "page", "ok")
    async with FaultServer(writer, script=script) as server:
        code, said = await tasks(server, seeds, "--count", "25", domains=DOMAINS[:1])
    assert code == 0, said
    assert "unusable replies: 5" in said
    assert {line["why"] for line in log_of(seeds)} >= {"unusable"}
    assert len(load_entries(seeds.parent / "new.jsonl")) == 25


async def test_what_was_written_is_kept_and_a_line_cut_short_is_written_anew(seeds: Path) -> None:
    out = seeds.parent / "new.jsonl"
    async with FaultServer(writer) as server:
        code, said = await tasks(server, seeds, "--count", "30", domains=DOMAINS[:1])
        assert code == 0, said
    whole = out.read_bytes()
    out.unlink()
    async with FaultServer(writer, script=("ok", "ok", "401")) as server:
        code, said = await tasks(server, seeds, "--count", "30", domains=DOMAINS[:1])
        assert code == 2, said
    held = out.read_bytes()
    assert held
    assert whole.startswith(held)
    out.write_bytes(held + b'{"web_name":"Sky","id":"Sky--99","ques":"Show the')
    async with FaultServer(writer) as server:
        code, said = await tasks(server, seeds, "--count", "30", domains=DOMAINS[:1])
        assert code == 0, said
    assert out.read_bytes() == whole


async def test_earlier_tasks_are_shown_as_far_as_the_context_takes_them(seeds: Path) -> None:
    async with FaultServer(writer, takes=3500) as server:
        code, said = await tasks(server, seeds, "--count", "30", domains=DOMAINS[:1])
    assert code == 0, said
    assert server.seen["overflow"]
    assert any("Written already for Sky" in user_of(request) for request in server.requests)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--domain", "Sky"], "--domain takes NAME=URL"),
        (["--domain", "Sky=sky.example"], "--domain takes NAME=URL"),
        (["--domain", "Sky=https://other.example/"], "given twice"),
        (["--domain", "Soup=https://soup.example/"], "a domain of the held-out tasks"),
        (["--seed-domain", "Air"], "no task of 'Air': its domains are Air Flights, Soup"),
        (["--out", "{seeds}"], "name another file with --out"),
        (["--out", "{text}"], "notes.txt, line 1: the line: Invalid JSON"),
        (["--set", "neer=1"], "the nearest is near"),
        (["--set", "date_until=3"], "before date_from"),
    ],
)
async def test_a_wrong_command_is_one_sentence_and_asks_nobody(seeds: Path, more: list[str], problem: str) -> None:
    text = seeds.parent / "notes.txt"
    text.write_text("my notes", "utf-8")
    files = (seeds, text)
    before = [file.read_bytes() for file in files]
    given = [word.format(seeds=seeds, text=text) for word in more]
    async with FaultServer(writer) as server:
        code, said = await tasks(server, seeds, *given)
        assert not server.requests
    assert code == 2
    assert problem in said
    assert [file.read_bytes() for file in files] == before


async def test_two_commands_do_not_write_one_file(seeds: Path) -> None:
    async with FaultServer(writer) as server:
        with TaskFile(seeds.parent / "new.jsonl"):
            code, said = await tasks(server, seeds, "--count", "5")
        assert not server.requests
    assert code == 2
    assert "another process writes" in said
