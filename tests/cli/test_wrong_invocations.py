"""Whatever is typed wrongly ends in one sentence and a code, at once, and makes nothing."""

import asyncio
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bestofq.cli.commands import app
from bestofq.cli.main import exit_with
from bestofq.core.decision import Provenance
from bestofq.store.store import Store

GO = "run 'buy a lamp' --url"
AT = "--model m --base-url"
NOBODY = "http://127.0.0.1:9/v1"
WRONG = f"""
nonsense
run
{GO} http://[::1 {AT} {NOBODY}
{GO} http://a.test {AT} http://127.0.0.1:99999/v1
{GO} http://a.test --model /no/such/model
{GO} http://a.test --config bad.toml
demo --model /no/such/model --out new
collect no.such.module:suite
collect webshop --tasks 0
collect webshop --tasks no-such-*
collect webshop --agent nonsense
collect webshop --store foreign
collect webshop --config unknown.toml
collect webshop --config latin.toml
collect webshop {AT} {NOBODY} --agent explore --budget nan
collect miniwob --tasks no-such-task
train --out new --store missing
train --out new --store empty --run missing
train --out text.txt --store empty
improve webshop --out text.txt/below --tasks 1
improve webshop --out text.txt --dry-run
improve webshop --store text.txt --dry-run
improve webshop --set cycles=1000000000000 --dry-run
agent-q booking --rounds 1000000000000 --dry-run
collect webshop --store text.txt --dry-run
eval webshop --agents ''
eval webshop --tasks 1 --out text.txt/below.json --agents prompting
eval webshop --tasks 1 --agents prompting --store text.txt/below
agent-q booking --out text.txt/below --tasks 1 --model missing
search booking --model missing
pairs booking --out new.parquet --store missing
pairs booking --out nothing --store empty
tune --out new --pairs missing
tune --out new --pairs text.txt
serve --upstream nonsense
serve --upstream 'http://a b/v1'
serve --upstream {NOBODY} --rank missing
serve --upstream {NOBODY} --rank empty --shadow empty
serve --upstream {NOBODY} --ab
view missing
view empty --host no.such.host.invalid
report empty
report empty --run missing
report empty --svg bars.svg
report postgresqlx://a/b --files new
report postgresql://[::1 --files new
report one --html text.txt
report one --markdown text.txt/below
report one --by agent --svg text.txt/below.svg
report one --markdown out.md
judge --run missing --model m --store empty --base-url {NOBODY}
judge --run seed --model m --base-url nonsense --store empty
judge --run seed --model m --store empty --out text.txt/below.json --base-url {NOBODY}
tasks webshop --tasks no-such-*
tasks webvoyager --data bad.jsonl
import jsonl missing
import jsonl text.txt --store text.txt
import browser-use text.txt
import atif bad.jsonl
export steps empty --out new.nonsense
export steps empty --out text.txt/below.parquet
export steps empty --out new.parquet --run missing
new suite ../up
collect --tasks 1 --run '\\udcff'
collect --tasks 1 --store ''
demo --out text.txt
report one --html text.txt/below
report one --table agents --csv new/out.csv
eval webvoyager --data nowhere
eval --data nowhere
new suite class
{GO} http://a.test --agent best
{GO} http://a.test --agent best-of-q {AT} {NOBODY}
{GO} http://a.test --base-url {NOBODY}
{GO} http://a.test --set by=words --set localizer=vision
{GO} file:///etc/passwd
{GO} http://a.test {AT} {NOBODY} --no-screenshots --set by=words --set localizer=vision
agent-q --set model.dialect=composite --set agent_q.feedback=q
agent-q --model pocket-agentq
agent-q --set model.dialect=composite --set endpoints.chat.model=m
agent-q booking --set model.dialect=composite --model pocket-agentq --rounds 10 --tasks 100
settings nonsense
settings iql --set iql.steps=-1
"""
Refused = Callable[..., tuple[object, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, one_episode: Path) -> Path:
    made = tmp_path_factory.mktemp("wrong")
    (made / "one").symlink_to(one_episode)
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
    """Size of each file, apart from what SQLite keeps beside a store that is open."""
    stores = ("empty", "foreign", "one")
    paths = (path for path in sorted(folder.rglob("*")) if path.relative_to(folder).parts[0] not in stores)
    return {str(path.relative_to(folder)): path.stat().st_size for path in paths}


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    """As Ctrl-C would, after what no refusal takes."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Refused:
    """Run a command line; return its exit code, and what it printed in one line."""

    def run(*words: str) -> tuple[object, str]:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        monkeypatch.setattr(sys, "argv", ["bestofq", *words])
        with pytest.raises(SystemExit) as end:
            exit_with(app)
        printed = capfd.readouterr()
        return end.value.code, " ".join((printed.out + printed.err).split())

    return run


@pytest.mark.parametrize("line", [line for line in WRONG.splitlines() if line])
def test_a_wrong_invocation_is_refused_in_a_sentence(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    monkeypatch.chdir(folder)
    before = contents(folder)
    code, printed = refused(*(word.replace(r"\udcff", "\udcff") for word in shlex.split(line)))
    assert code not in (0, None, 130)
    assert "Traceback" not in printed
    assert printed
    assert contents(folder) == before


@pytest.mark.parametrize(("number", "ends"), [(22, OSError), (28, SystemExit)])  # Invalid argument, No space left
def test_of_errors_that_name_no_path_only_a_full_disk_is_a_sentence(number: int, ends: type[BaseException]) -> None:
    def fails() -> None:
        raise OSError(number, "what the system says")

    with pytest.raises(ends, match="3" if ends is SystemExit else "system"):
        exit_with(fails)
