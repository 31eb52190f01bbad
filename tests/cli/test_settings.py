"""What commands take for granted where their user says nothing, and what stands for more than one setting."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from bestofq.agents.judges.chat import ChatJudge
from bestofq.cli.config import load_config
from bestofq.cli.options import CommonOptions
from bestofq.cli.shared import limit_of, models_of, named_only, store_at
from bestofq.config.agents import shipped_q
from bestofq.config.models import check_embedder
from bestofq.config.settings import BestOfQSettings
from bestofq.core.errors import ConfigError
from bestofq.envs.suites import AnySuiteSettings
from bestofq.store.location import Location
from bestofq_sites.webshop.settings import WebShopSettings


def settings_of(suite: str) -> AnySuiteSettings:
    return load_config(BestOfQSettings, None, [f"suite.name={suite}"]).suite


@pytest.mark.parametrize(
    ("tasks", "suite", "limit"),
    [(None, "webshop", 200), ("7", "webvoyager", 7), ("0", "webshop", 1)],
)
def test_how_many_tasks(tasks: str | None, suite: str, limit: int) -> None:
    assert limit_of(tasks, settings_of(suite)) == limit


@pytest.mark.parametrize(("tasks", "suite"), [(None, "webvoyager"), ("click-*,enter-*", "miniwob")])
def test_all_tasks(tasks: str | None, suite: str) -> None:
    assert limit_of(tasks, settings_of(suite)) > 12_087


def test_data_is_the_suite_s_and_a_setting_has_the_last_word(tmp_path: Path) -> None:
    settings = models_of(CommonOptions(model="m", base_url="http://127.0.0.1:9/v1", data=tmp_path)).settings
    assert settings.suite == WebShopSettings(data=tmp_path)
    assert settings.endpoints["chat"].model == "m"
    assert models_of(CommonOptions(set_=["suite.data=none"], data=tmp_path)).settings.suite == WebShopSettings()


@pytest.mark.parametrize("text", ["[a-z]*", "{a}", '"a"', "'a", "a\\b", "none"])
def test_the_value_of_an_option_is_no_toml(text: str) -> None:
    assert models_of(CommonOptions(), *named_only(text)).settings.suite.only == text
    settings = models_of(CommonOptions(model=text, base_url="http://127.0.0.1:9/v1", data=Path(text))).settings
    assert (settings.endpoints["chat"].model, settings.suite.data) == (text, Path(text))


@pytest.mark.parametrize(
    ("model", "ships"), [("pocket", True), ("me/pocket", True), ("gpt-x", False), ("pocket-web", False)]
)
def test_a_q_function_ships_for_the_model_that_proposes_alone(model: str, ships: bool) -> None:
    models = models_of(CommonOptions(model=model, base_url="http://127.0.0.1:9/v1"))
    assert (shipped_q(models.settings) is not None) is ships
    with nullcontext() if ships else pytest.raises(ConfigError, match=r"--set model\.embedder="):
        check_embedder(models.settings)


def test_a_role_takes_the_endpoint_of_its_name_or_another_one() -> None:
    one = CommonOptions(model="m", base_url="http://127.0.0.1:9/v1", set_=["judge=chat", "endpoints.user.model=u"])
    models = models_of(one)
    assert (models.settings.chat, models.settings.judge, models.settings.user) == ("chat", "chat", "user")
    assert isinstance(models.judge, ChatJudge)
    assert models.judge.model is models.endpoint
    assert models.locating is models.endpoint


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["judge=gpt"], "judge names the endpoint 'gpt', but there are none: set endpoints.gpt.model"),
        (["judge=gpt", "endpoints.chat.model=m"], "judge names the endpoint 'gpt', but the endpoints are chat"),
        (["endpoints.gpt.base_url=http://127.0.0.1:9/v1"], "endpoints.gpt.model has no default"),
        (
            ["endpoints.gpt.temprature=1"],
            "no setting endpoints.gpt.temprature; the nearest is endpoints.gpt.temperature",
        ),
        (["endpoints.gpt=m"], "endpoints.gpt is a table of settings, not 'm': set one of them, such as endpoints.gpt."),
        (["endpoints=m"], "endpoints is a table of settings, not 'm': set one of them, such as endpoints.NAME.model"),
    ],
)
def test_a_wrong_endpoint_is_one_clear_sentence(settings: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(BestOfQSettings, None, settings)
    assert said in str(refused.value)


def test_what_went_wrong_is_said_though_another_command_has_put_something_beside(tmp_path: Path) -> None:
    def fail() -> None:
        with store_at(Location(str(tmp_path / "runs" / "mine"))):
            (tmp_path / "runs" / "others").mkdir()
            raise ConfigError("what went wrong")

    with pytest.raises(ConfigError, match="what went wrong"):
        fail()
    assert [*tmp_path.rglob("*")] == [tmp_path / "runs", tmp_path / "runs" / "others"]
