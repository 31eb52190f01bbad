"""Spans of what an agent does, for OpenTelemetry: off unless its API is installed and an OTEL_* variable is set.

    episode ─ decide ─ propose, prepare (embeds the state meanwhile), score ─ embed
            └ act

A span has names and numbers, never what a page or an error says.
"""

import importlib
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

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


@contextmanager
def span(name: str, **attributes: str | int) -> Iterator[None]:
    """Around a piece of work, under the span that it is called in. Of an error its type alone is kept."""
    if (made := tracer()) is None:
        yield
        return
    named = {f"bestofq.{key}": value for key, value in attributes.items()}
    silent = {"record_exception": False, "set_status_on_exception": False}
    with made.start_as_current_span(name, attributes=named, **silent) as current:
        try:
            yield
        except BaseException as error:
            current.set_attribute("error.type", type(error).__name__)
            raise


async def trace_call(name: str, call: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """What the call gives, in a span of its own."""
    with span(name):
        return await call(*arguments)


def export_spans() -> None:
    """Send them as OTEL_EXPORTER_OTLP_ENDPOINT says, where that is set and the extra `otel` is installed. A program of
    your own sets its provider itself."""
    if not {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} & {*os.environ}:
        return
    names = ("sdk.trace", "sdk.trace.export", "exporter.otlp.proto.http.trace_exporter", "trace")
    try:
        sdk, batches, otlp, api = (importlib.import_module(f"opentelemetry.{name}") for name in names)
    except ModuleNotFoundError:
        return
    provider = sdk.TracerProvider()
    provider.add_span_processor(batches.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    api.set_tracer_provider(provider)
