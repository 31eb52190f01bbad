"""What a hostile upstream, or a client, may not do to the proxy."""

from pathlib import Path

import httpx
import pytest

from bestofq.models import bounds
from bestofq.serve import upstream
from bestofq.serve.app import _usage
from bestofq.serve.upstream import Reply, post
from bestofq.testing.fault_server import FaultServer
from tests.serve.agents import Upstream, click, serving


@pytest.mark.parametrize("fault", ["flood", "elsewhere"])
async def test_no_flood_and_no_other_host(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "BODY_LIMIT", 2**20)
    async with FaultServer(lambda _: "no") as other, httpx.AsyncClient(timeout=10) as client:
        async with FaultServer(lambda _: "hi", script=[fault, "ok"], other=other.base_url) as server:
            url = f"{server.base_url}/chat/completions"
            failed = await post(client, url, b"{}", {"accept-encoding": "gzip"})
            assert (failed.status, failed.json) == (502, None)
            assert (await post(client, url, b"{}", {})).status == 200
        assert not other.requests


async def test_a_request_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "BODY_LIMIT", 2**10)
    async with serving(Upstream(lambda body, count: click(1)), tmp_path) as root, httpx.AsyncClient() as client:
        for path in ("chat/completions", "anything/else"):
            assert (await client.post(f"{root}/v1/{path}", content=b" " * 2**11)).status_code == 413


def test_forged_counts_of_tokens_are_none() -> None:
    forged = [{"prompt_tokens": -(10**6), "completion_tokens": 10**30}, {"input_tokens": "many", "output_tokens": 7}, 7]
    used = _usage([Reply(200, {}, b"", {"usage": one}) for one in forged])
    assert (used.tokens_in, used.tokens_out, used.calls) == (0, 7, 3)
