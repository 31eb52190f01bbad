"""What a reply costs, and that an unknown price stays unknown."""

import sys
from math import nan
from pathlib import Path

import pytest

from bestofq.core.errors import ConfigError, DataError
from bestofq.core.language import Request, user
from bestofq.models.chat import ChatConfig, ChatModel
from bestofq.models.prices import Budget, Price, price_of
from bestofq.testing.fault_server import FaultServer

ASK = Request(messages=user("hello"), greedy=False)
FILE = """
["qwen3-vl-8b"]
usd_in = 0.18
usd_out = 0.7

["gpt-4.1"]
usd_in = 3
usd_out = 12
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(FILE, "utf-8")
    return path


def test_what_is_set_goes_before_the_file_and_the_file_before_the_paper(file: Path) -> None:
    def price(model: str, **settings: float) -> Price:
        return ChatConfig(model=model, prices=file, **settings).price()

    assert price("Qwen/Qwen3-VL-8B-Instruct") == (0.18, 0.7)
    assert price("gpt-4.1") == (3, 12)
    assert price("gpt-4.1", usd_in=1.0) == (1, 12)
    assert price("qwen2.5-vl-3b") == (0.1, 0.4)
    assert price("another") == (None, None)
    assert price_of("gpt-4.1") == (2, 8)


def test_a_dated_name_is_priced_as_the_name_without_its_date(file: Path) -> None:
    assert price_of("gpt-4.1-2025-04-14") == (2, 8)
    assert price_of("gpt-4.1-2025-04-14", file) == (3, 12)
    assert price_of("Qwen/Qwen3-VL-8B-20251014-Instruct", file) == (0.18, 0.7)
    assert price_of("qwen3-vl-8b-2", file) == (None, None)


@pytest.mark.parametrize("limit", [nan, -1.0])
def test_a_budget_is_a_number_of_dollars(limit: float) -> None:
    with pytest.raises(ConfigError, match=f"--budget {limit:g} is no limit: give USD, 0 or more"):
        Budget(limit)


def test_what_the_file_and_the_paper_do_not_know_genai_prices_may(monkeypatch: pytest.MonkeyPatch) -> None:
    known = price_of("claude-sonnet-4-5-20250929")
    assert known == price_of("anthropic/claude-sonnet-4-5")
    assert known.usd_in is not None
    assert known.usd_out is not None
    assert 0 < known.usd_in < known.usd_out
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert price_of("claude-opus-4-5") == (None, None)


def test_an_unknown_price_is_never_0() -> None:
    assert Price(None, None).usd(100, 20) is None
    assert Price(1.0, None).usd(100, 0) is None
    assert Price(0.0, 0.0).usd(100, 20) == 0
    assert Price(2.0, 8.0).usd(1_000_000, 500_000) == 6.0


async def test_a_reply_without_counted_tokens_has_no_price() -> None:
    async with FaultServer(lambda _: "hi", script=["ok", "uncounted"]) as server:
        model = ChatModel(ChatConfig(model="gpt-4.1", base_url=server.base_url))
        counted, uncounted = await model.generate(ASK), await model.generate(ASK)
        await model.close()
    assert counted.usd == (100 * 2 + 20 * 8) / 1e6
    assert uncounted.usd is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a", "cannot be read"),
        ('["m"]\nusd_in = 1\n', r"m\.usd_out: Field required; each model is a table"),
        ('["m"]\nusd_in = -1\nusd_out = 1\n', r"m\.usd_in: .*greater than or equal to 0"),
        ('["m"]\nusd_in = nan\nusd_out = 1\n', r"m\.usd_in: .*finite"),
        ("m = 3\n", r"m: .*each model is a table"),
    ],
)
def test_a_broken_price_file_is_named_when_the_model_is_made(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(DataError, match=said):
        ChatModel(ChatConfig(model="m", prices=path))
    with pytest.raises(DataError, match=r"gone\.toml cannot be read"):
        ChatModel(ChatConfig(model="m", prices=tmp_path / "gone.toml"))
