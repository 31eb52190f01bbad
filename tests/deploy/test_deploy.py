"""The Dockerfile, the compose file and the Kubernetes job: what they name is there, and their commands are ours."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from forked import Forked

from bestofq.cli.commands import app, load_command
from bestofq.store.location import Location
from bestofq.store.store import Store

ROOT = Path(__file__).parent.parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text("utf-8"))
JOB: dict[str, Any] = yaml.safe_load((ROOT / "deploy/job.yaml").read_text("utf-8"))["spec"]
POD: dict[str, Any] = JOB["template"]["spec"]["containers"][0]
OURS = {name: one["command"] for name, one in COMPOSE["services"].items() if one.get("image") == "bestofq"}


@pytest.mark.parametrize("words", [*OURS.values(), POD["args"]], ids=lambda words: words[0])
def test_the_commands_are_ours(words: list[str]) -> None:
    command = load_command(words[0])
    assert command.make_context(words[0], words[1:], resilient_parsing=False).params["files"].startswith("s3://")


def test_what_the_image_copies_is_there_and_its_user_is_not_root() -> None:
    lines = (ROOT / "deploy/Dockerfile").read_text("utf-8").splitlines()
    copied = [word for line in lines if line.startswith("COPY") for word in line.split()[1:-1]]
    let_in = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text("utf-8"), re.MULTILINE)
    assert copied
    assert set(copied) == set(let_in)
    assert all((ROOT / name).exists() for name in copied)
    assert [line.split()[1] for line in lines if line.startswith("USER")] == ["bestofq"]


def test_services_wait_for_those_they_need() -> None:
    services = COMPOSE["services"]
    for name, service in services.items():
        for needed, how in service.get("depends_on", {}).items():
            assert how["condition"] == "service_completed_successfully" or "healthcheck" in services[needed], name
    assert set(re.findall(r"^(\w+)=", (ROOT / "deploy/.env.example").read_text("utf-8"), re.MULTILINE)) == set(
        re.findall(r"\$\{(\w+)", (ROOT / "deploy/compose.yaml").read_text("utf-8"))
    )


def test_the_job_is_complete_when_one_of_its_pods_has_seen_all_tasks_finished() -> None:
    assert JOB["parallelism"] > 1
    assert "completions" not in JOB
    assert "bestofq" in POD["image"]
    assert POD["envFrom"]


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The bucket of the compose file, on loopback."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    given = COMPOSE["x-bestofq"]["environment"]
    for name, value in {**given, "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL": address}.items():
        monkeypatch.setenv(name, value)
    httpx.put(f"{address}/bestofq", timeout=60)
    yield address
    server.stop()


@pytest.mark.slow
def test_the_services_run_here_as_they_do_there(database: str, objects: str, tmp_path: Path) -> None:
    def here(name: str, **instead: str) -> Forked:
        changes = {"postgresql+psycopg://bestofq@database/bestofq": database, **instead}
        return Forked(tmp_path / name, app, [changes.get(word, word) for word in OURS[name]])

    worker = here("worker", **{"100": "2"})
    assert worker.wait() == 0, worker.said
    with Store.open(Location(database, "s3://bestofq/runs"), read_only=True) as store:
        assert len(store.summaries(run="seed")) == 2
    viewer = here("viewer", **{"0.0.0.0": "127.0.0.1", "8760": "0"})
    try:
        while not (address := re.search(r"http://\S+", viewer.said)):
            assert viewer.runs, viewer.said
            time.sleep(0.01)
        assert "explore" in httpx.get(address[0], follow_redirects=True, timeout=60).text
    finally:
        viewer.kill()
