"""A real small model behind llama.cpp's own server, if there is one.

LLAMA_SERVER names the binary (default: llama-server on the PATH), LLAMA_GGUF an instruct model's GGUF file.
"""

import asyncio
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from playwright.async_api import async_playwright

import bestofq as bq
from bestofq.agents.dialects.json import JsonDialect
from bestofq.browser.chromium import find_chromium
from bestofq.core.actions import Targeted
from bestofq.core.embedding import EmbedItem
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.models.embed_text import EndpointEmbedder

pytestmark = pytest.mark.slow
SERVER, GGUF = os.environ.get("LLAMA_SERVER") or shutil.which("llama-server"), os.environ.get("LLAMA_GGUF", "")
PAGE = """<title>Shop</title><h1>Mugs</h1><label>Search <input></label><button>Go</button>
<a href="#blue">Blue mug</a> <a href="#red">Red mug</a>"""


def serve(gguf: str, *flags: str) -> Iterator[str]:
    if not SERVER or not Path(gguf).is_file():
        pytest.skip("llama.cpp's server is not here: set LLAMA_SERVER and LLAMA_GGUF")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words: list[str] = [SERVER, "-m", gguf, "--port", str(port), "-t", "1", "-np", "1", "-c", "4096", *flags]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 120
        while time.monotonic() < until and process.poll() is None:
            try:
                if httpx.get(f"http://127.0.0.1:{port}/health", timeout=2).status_code == 200:
                    break
            except httpx.HTTPError:
                time.sleep(0.2)
        assert process.poll() is None, f"{' '.join(words)} ended"
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def chat() -> Iterator[str]:
    yield from serve(GGUF)


@pytest.fixture(scope="module")
def embeddings() -> Iterator[str]:
    yield from serve(GGUF, "--embeddings", "--pooling", "mean")


async def test_it_proposes_distinct_actions_on_the_marks_of_a_real_page(chat: str) -> None:
    async with async_playwright() as playwright, ChatModel.at(chat, "any") as model:
        browser = await playwright.chromium.launch(executable_path=find_chromium())
        page = await browser.new_page()
        await page.set_content(PAGE)
        seen = await bq.observe(page)
        task = bq.Task(id="t", suite="s", goal="open the red mug", start_url=seen.url)
        proposer = bq.ChatProposer(model, JsonDialect(thoughts=False), screenshots=0)
        proposal = await proposer.propose(bq.State(task=task, observation=seen), 3)
        await browser.close()
    assert not proposal.failed
    assert len(proposal.candidates) >= 2
    marks = {element.mark for element in seen.elements}
    assert all(c.action.mark in marks for c in proposal.candidates if isinstance(c.action, Targeted) and c.action.mark)


async def test_it_embeds(embeddings: str) -> None:
    embedder = await asyncio.to_thread(EndpointEmbedder, ChatConfig(model="any", base_url=embeddings))
    texts = ["click Red mug", "click the red mug", "Paris is the capital of France", "word " * 9000]
    vectors, tokens = await embedder.embed([EmbedItem(text=text) for text in texts])
    assert (vectors.shape, tokens > 0) == ((4, embedder.spec.dim), True)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert unit[0] @ unit[1] > unit[0] @ unit[2]
