"""Spans of what an agent does, for OpenTelemetry: off unless its API is installed and an OTEL_* variable is set.

    episode ─ decide ─ propose, prepare (embeds the state meanwhile), score ─ embed
            └ act

A span has names and counts, never what a page says.
"""

import importlib
import os
from collections.abc import Awaitable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, TypeVar

from bestofq.core.loading import extra

T = TypeVar("T")


@cache
def tracer() -> Any:
    """OpenTelemetry's, by the environment at the first call; None where tracing is off."""
    if not any(name.startswith("OTEL_") for name in os.environ):
        return None
    try:
        return importlib.import_module("opentelemetry.trace").get_tracer("bestofq")
    except ModuleNotFoundError:
        return None


def span(name: str, **attributes: str | int | float) -> AbstractContextManager[Any]:
    """Around a piece of work, under the span that it is called in; it gives the span, None where tracing is off."""
    if (made := tracer()) is None:
        return nullcontext()
    found: AbstractContextManager[Any] = made.start_as_current_span(
        name, attributes={f"bestofq.{key}": value for key, value in attributes.items()}
    )
    return found


async def traced(name: str, work: Awaitable[T]) -> T:
    """The work's result, in a span of its own."""
    with span(name):
        return await work


def export_spans() -> None:
    """Send them as OTEL_EXPORTER_OTLP_ENDPOINT says, where that is set; a program of your own sets its provider itself.
    SetupError without the exporter."""
    if not any(name in os.environ for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")):
        return
    exporter = extra("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    sdk, batches = extra("opentelemetry.sdk.trace"), extra("opentelemetry.sdk.trace.export")
    provider = sdk.TracerProvider()
    provider.add_span_processor(batches.BatchSpanProcessor(exporter.OTLPSpanExporter()))
    extra("opentelemetry.trace").set_tracer_provider(provider)
