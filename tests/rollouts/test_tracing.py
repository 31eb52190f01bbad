"""Spans of each decision, as OpenTelemetry's own exporter sees them; none unless they are asked for."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from line_world import line_agent, line_env, line_task
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bestofq.agents.agent import Agent
from bestofq.agents.embedding_texts import EmbeddingTexts
from bestofq.agents.scorers.learned import QScorer
from bestofq.core import tracing
from bestofq.core.decision import Provenance
from bestofq.core.embedding import EmbedItem, EmbedSpec
from bestofq.core.transitions import Floats
from bestofq.rollouts.runner import run_many
from bestofq.store.store import Store

EXPORTER = InMemorySpanExporter()


class Embedder:
    spec = EmbedSpec(model="ones", revision="1", dim=1)

    async def embed(self, items: Sequence[EmbedItem]) -> tuple[Floats, int]:
        return np.ones((len(items), 1), np.float32), len(items)


class Values:
    def q(self, state: Floats, action: Floats, task: Floats) -> Floats:
        return action[..., 0]

    def v(self, state: Floats, task: Floats) -> Floats:
        return state[..., 0]

    def prepare(self, state: Floats, task: Floats) -> None: ...


@pytest.fixture(scope="module", autouse=True)
def provider() -> None:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(made)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    EXPORTER.clear()
    tracing.tracer.cache_clear()
    yield
    tracing.tracer.cache_clear()


async def play(folder: Path) -> None:
    scorer = QScorer(Values(), Embedder(), EmbeddingTexts())  # type: ignore[arg-type]
    agent = Agent(name="by q", proposer=line_agent().proposer, scorer=scorer)
    with Store.open(folder) as store:
        await store.begin_run("r", {}, Provenance(version="test"))
        await run_many([line_task("t", 2)], line_env, agent, store=store, run="r")


async def test_a_decision_s_parts_lie_in_it_and_it_in_its_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "bestofq")
    await play(tmp_path)
    spans = EXPORTER.get_finished_spans()
    names = {span.context.span_id: span.name for span in spans if span.context}
    lies = {(span.name, names.get(span.parent.span_id) if span.parent else None) for span in spans}
    assert lies == {
        ("episode", None),
        ("decide", "episode"),
        ("act", "episode"),
        ("propose", "decide"),
        ("prepare", "decide"),
        ("score", "decide"),
        ("embed", "prepare"),
        ("embed", "score"),
    }
    (episode,) = (dict(span.attributes or {}) for span in spans if span.name == "episode")
    assert episode == {"bestofq.run": "r", "bestofq.agent": "by q", "bestofq.task": "t"}
    decided = sum(span.name == "decide" for span in spans)
    assert decided == sum(span.name == "act" for span in spans) > 0


def test_of_an_error_its_type_alone_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "bestofq")
    with pytest.raises(ValueError, match="secret"), tracing.span("act"):
        raise ValueError("secret")
    (found,) = EXPORTER.get_finished_spans()
    assert dict(found.attributes or {}) == {"error.type": "ValueError"}
    assert "secret" not in found.to_json()


async def test_without_a_variable_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    await play(tmp_path)
    assert EXPORTER.get_finished_spans() == ()


async def test_without_the_package_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "bestofq")
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    await play(tmp_path)
    assert EXPORTER.get_finished_spans() == ()
