"""Whatever is typed wrongly ends in one sentence and a code, at once, and makes nothing."""

import asyncio
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bestofq.cli.commands import app
from bestofq.cli.main import exit_with
from bestofq.core.decision import Provenance
from bestofq.core.errors import InputError
from bestofq.store.store import Store

GO = "run 'buy a lamp' --url"
AT = "--model m --base-url"
WRONG = f"""
nonsense
--nonsense
run
run 'buy a lamp'
{GO} http:// {AT} http://127.0.0.1:9/v1
{GO} http://[::1 {AT} http://127.0.0.1:9/v1
{GO} ftp://a.test {AT} http://127.0.0.1:9/v1
{GO} file:///etc/passwd {AT} http://127.0.0.1:9/v1
{GO} http://a.test {AT} http://[::1
{GO} http://a.test {AT} http://127.0.0.1:99999/v1
{GO} http://a.test {AT} nonsense
{GO} http://a.test --base-url http://127.0.0.1:9/v1
{GO} http://a.test --model /no/such/model
{GO} http://a.test --model text.txt
{GO} http://a.test --agent nonsense
{GO} http://a.test --agent best-of-q --q nothing {AT} http://127.0.0.1:9/v1
{GO} http://a.test --n 0
{GO} http://a.test --budget -1
{GO} http://a.test --store text.txt
{GO} http://a.test --store foreign
{GO} http://a.test --config missing.toml
{GO} http://a.test --config bad.toml
{GO} http://a.test --config latin.toml
{GO} http://a.test --set nonsense
{GO} http://a.test --set nonsense=1
demo --tasks 1
demo --out text.txt
demo --model /no/such/model --out new
demo --config missing.toml
demo --set demo=1
collect nonsense
collect no.such.module:suite
collect os:getcwd
collect webshop --tasks 0
collect webshop --tasks no-such-*
collect webshop --tasks ''
collect webshop --agent nonsense
collect webshop --agent best-of-q --q text.txt
collect webshop --q missing --agent best-of-q
collect webshop --data missing
collect webshop --store text.txt
collect webshop --store foreign
collect webshop --config unknown.toml
collect webshop --set suite.name=nonsense
collect webshop --set iql.steps=many
collect webshop --set model.path=missing
collect webshop --base-url http://127.0.0.1:9/v1
collect webshop {AT} ''
collect webshop {AT} http://127.0.0.1:9/v1 --agent explore --budget nan
collect webvoyager --data missing.jsonl
collect miniwob --data nothing
collect miniwob --tasks no-such-task
train
train --out new --store missing
train --out new --store foreign
train --out new --store empty
train --out new --store empty --run missing
train --out text.txt --store empty
train --out new --try nonsense --store empty
train --out new --set iql.network.hidden=nonsense --store empty
improve nonsense
improve webshop --out text.txt/below --tasks 1
improve webshop --set cycles=-1
eval nonsense
eval webshop --split nonsense
eval webshop --agents ''
eval webshop --agents prompting,nonsense
eval webshop --q missing
eval webshop --tasks 1 --out text.txt/below.json --agents prompting
eval webshop --tasks 1 --out nothing --agents prompting
eval webshop --tasks 1 --agents prompting {AT} http://127.0.0.1:99999/v1
eval webshop --tasks 1 --agents own
eval webshop --tasks 1 --agents own --set scorer=no.such:thing
eval webshop --tasks 1 --store text.txt
agent-q --rounds 0
agent-q nonsense
agent-q booking --model missing
agent-q booking --out text.txt/below --tasks 1 --model missing
search nonsense
search booking --split nonsense
search booking --model missing
pairs
pairs booking --out new.parquet --store missing
pairs booking --out new.parquet --store empty
pairs booking --out text.txt/below.parquet --store empty
pairs booking --out nothing --store empty
tune
tune --out new --pairs missing
tune --out new --pairs text.txt
tune --out new --store empty --run missing
tune --out text.txt --pairs missing
serve
serve --upstream nonsense
serve --upstream http://[::1
serve --upstream http://127.0.0.1:99999/v1
serve --upstream http://127.0.0.1:9/v1 --port 99999
serve --upstream http://127.0.0.1:9/v1 --n 0 --rank empty
serve --upstream http://127.0.0.1:9/v1 --rank missing
serve --upstream http://127.0.0.1:9/v1 --shadow nothing
serve --upstream http://127.0.0.1:9/v1 --ab
serve --upstream http://127.0.0.1:9/v1 --store text.txt
view missing
view text.txt
view foreign
view empty --port 99999
view empty --host 999.999.999.999
view empty --host no.such.host.invalid
report missing
report text.txt
report foreign
report empty
report empty --run missing
report empty --table nonsense
report empty --split nonsense
report empty --discount 2
report empty --html text.txt/below
report empty --price nonsense
report empty --reference human
report empty --by nonsense
report empty --baseline nonsense --table agents
judge
judge --run seed --model m --store missing
judge --run missing --model m --store empty --base-url http://127.0.0.1:9/v1
judge --run seed --model m --base-url nonsense --store empty
judge --run seed --model m --concurrency 0
judge --run seed --model m --criteria nonsense
judge --run seed --model m --store empty --out text.txt/below.json --base-url http://127.0.0.1:9/v1
tasks nonsense
tasks webshop --split nonsense
tasks webshop --tasks no-such-*
tasks webvoyager --data bad.jsonl
import
import nonsense text.txt
import jsonl missing
import jsonl latin.toml
import jsonl text.txt --store text.txt
import browser-use text.txt
import atif bad.jsonl
import inspect text.txt
import webvoyager missing
import open-operator-evals text.txt
import go-browse text.txt
export
export nonsense empty --out new.parquet
export steps missing --out new.parquet
export steps empty --out new.nonsense
export steps empty --out text.txt/below.parquet
export steps empty --out new.parquet --run missing
export atif empty --out text.txt
export pairs empty --out new.parquet --alpha 2
serve-model --model missing
serve-model --model pocket --port 99999
serve-model --set nonsense=1
doctor --base-url http://127.0.0.1:9/v1
collect webshop --store new --tasks 1 --cluster auto
search webshop --store new --tasks 1 --cluster auto
eval webshop --agents prompting,,random
serve --upstream http://127.0.0.1:9/v1 --rank empty --shadow empty
new suite json
new suite class
new suite ../up
report empty --svg bars.svg
report empty --by agent --html new
eval webshop --tasks 1 --agents prompting --store text.txt/below
settings nonsense
settings iql --set iql.steps=-1
settings --config missing.toml
"""
CASES = [line for line in WRONG.splitlines() if line]
SLOW = (  # they load PyTorch, or a browser
    "--model /no/such",
    "miniwob --tasks no",
    "--url http:// ",
    "tune --out new --pairs text",
    "--tasks no-such-*",
    "--shadow",
    "search booking --model",
)
MARKED = [pytest.param(line, marks=[pytest.mark.slow] if any(map(line.__contains__, SLOW)) else []) for line in CASES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("wrong")
    (made / "text.txt").write_text("hello\n")
    (made / "bad.toml").write_text("not toml [")
    (made / "unknown.toml").write_text("nonsense = 1\n")
    (made / "latin.toml").write_bytes("größe = 1\n".encode("latin-1"))
    (made / "bad.jsonl").write_text('{"a": \n')
    (made / "nothing").mkdir()
    (made / "foreign").mkdir()
    (made / "foreign" / "store.sqlite").write_text("this is no database, whatever it is called\n" * 100)
    with Store.open(made / "empty") as store:
        asyncio.run(store.begin_run("seed", {}, Provenance(version="test")))
    return made


def contents(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_size for path in sorted(folder.rglob("*"))}


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    """As Ctrl-C would, after what no refusal takes."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def test_an_argument_that_is_no_utf_8_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["bestofq", "collect", "--tasks", "1", "--run", "\udcff", "--store", str(tmp_path)]
    )
    with pytest.raises(SystemExit) as end:
        exit_with(app)
    assert end.value.code == 2
    assert r"the argument '\udcff' is not UTF-8: type it" in " ".join(capfd.readouterr().out.split())


@pytest.mark.parametrize("words", ["--log-format json", "--log-format=json"])
def test_an_option_of_all_commands_after_the_command_is_told_its_place(words: str) -> None:
    with pytest.raises(InputError, match="--log-format stands before the command: bestofq --log-format json eval"):
        app(["eval", "webshop", *words.split()], standalone_mode=False)


@pytest.mark.parametrize("line", MARKED)
def test_a_wrong_invocation_is_refused_in_a_sentence(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(sys, "argv", ["bestofq", *shlex.split(line)])
    before = contents(folder)
    with pytest.raises(SystemExit) as end:
        exit_with(app)
    said = capfd.readouterr()
    assert end.value.code not in (0, None, 130), line
    assert "Traceback" not in said.out + said.err
    assert (said.out + said.err).strip()
    made = {
        name for name in contents(folder).keys() - before.keys() if name.partition("/")[0] not in ("empty", "foreign")
    }
    assert not made, made
