"""Settings from a file, from `--set` and from options that are settings; what does not fit is one sentence."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Literal, Self

import pytest
from pydantic import Field, model_validator

from bestofq.agents.judges.chat import ChatJudge
from bestofq.agents.localizers import VisionLocalizer
from bestofq.cli.config import load_config
from bestofq.cli.options import CommonOptions
from bestofq.cli.shared import limit_of, models_of, named_only
from bestofq.config.agents import make_localizer, shipped_q
from bestofq.config.models import check_embedder
from bestofq.config.settings import BestOfQSettings
from bestofq.core.errors import ConfigError
from bestofq.core.frozen import FrozenModel
from bestofq_sites.webshop.settings import WebShopSettings

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
NOBODY = "http://127.0.0.1:9/v1"


class Training(FrozenModel):
    expectile: float = Field(default=0.7, gt=0, lt=1)
    hidden: tuple[int, ...] = (4, 2)
    project: int | None = 8


class Recipe(FrozenModel):
    name: str = "shop"
    runs: int = Field(default=5, ge=1)
    tasks: int = Field(default=10, ge=1)
    device: Literal["cpu", "cuda"] = "cpu"
    verbose: bool = False
    folder: Path = Path("runs")
    training: Training = Training()

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.runs * self.tasks > 1000:
            raise ValueError(f"{self.runs} runs of {self.tasks} tasks are more than 1000 episodes")
        return self


def write(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text, "utf-8")
    return path


def test_defaults_then_file_then_settings(tmp_path: Path) -> None:
    text = 'name = "toys"\nruns = 3\n[training]\nexpectile = 0.9\nhidden = [8, 8, 8]\nproject = "none"\n'
    training = Training(expectile=0.8, hidden=(8, 8, 8), project=None)
    assert load_config(Recipe) == Recipe()
    changed = load_config(Recipe, write(tmp_path, text), ["runs=4", "training.expectile=0.8", "runs=6"])
    assert changed == Recipe(name="toys", runs=6, training=training)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("name=7", Recipe(name="7")),
        ('name="none"', Recipe(name="none")),
        ("name=a=b", Recipe(name="a=b")),
        ("verbose=true", Recipe(verbose=True)),
        ("device=cuda", Recipe(device="cuda")),
        ("folder=/data/runs", Recipe(folder=Path("/data/runs"))),
        ("training.expectile = 1e-3", Recipe(training=Training(expectile=1e-3))),
        ("training.hidden=[64, 32]", Recipe(training=Training(hidden=(64, 32)))),
        ("training.project=none", Recipe(training=Training(project=None))),
    ],
)
def test_a_value_is_read_as_its_setting_needs_it(setting: str, expected: Recipe) -> None:
    assert load_config(Recipe, None, [setting]) == expected


NO_ENDPOINT = "judge names the endpoint 'gpt', but"


@pytest.mark.parametrize(
    ("cls", "settings", "sentence"),
    [
        (Recipe, "training.expectil=0.8", "There is no setting training.expectil; the nearest is training.expectile."),
        (Recipe, "expectile=0.8", "There is no setting expectile; the nearest is training.expectile."),
        (Recipe, "zzzz=1", "There is no setting zzzz; there are name, runs, tasks"),
        (Recipe, "training.expectile=1.5", "The setting training.expectile is '1.5': input should be less than 1."),
        (Recipe, "runs=many", "The setting runs is 'many': input should be a valid integer"),
        (Recipe, "device=tpu", "The setting device is 'tpu': input should be 'cpu' or 'cuda'."),
        (Recipe, "training=5", "training is a table of settings, not '5': set one of them, such as training.expectile"),
        (Recipe, "tasks=900", "The settings do not fit: 5 runs of 900 tasks are more than 1000 episodes."),
        (Recipe, "runs", "--set takes name=value, such as iql.expectile=0.8, not 'runs'."),
        (Recipe, "training..expectile=1", "--set takes name=value"),
        (Recipe, "training.hidden=[1,", "--set training.hidden=[1,: the value is not TOML"),
        (Recipe, "runs=3 runs.more=4", "--set runs.more=4: runs is a value, not a table"),
        (BestOfQSettings, "iql.network.hidden=big", "The setting iql.network.hidden is 'big': "),
        (BestOfQSettings, "suite.env=paper", "The setting suite.env is 'paper': input should be 'text' or 'browser'"),
        (BestOfQSettings, "suite=booking", "suite is a table of settings, not 'booking': set one of them"),
        (BestOfQSettings, "judge=gpt", f"{NO_ENDPOINT} there are none: set endpoints.gpt.model"),
        (BestOfQSettings, "judge=gpt endpoints.chat.model=m", f"{NO_ENDPOINT} the endpoints are chat"),
        (BestOfQSettings, f"endpoints.gpt.base_url={NOBODY}", "The setting endpoints.gpt.model has no default"),
        (BestOfQSettings, "endpoints.gpt.temprature=1", "There is no setting endpoints.gpt.temprature; the nearest is"),
        (BestOfQSettings, "endpoints.gpt=m", "endpoints.gpt is a table of settings, not 'm': set one of them"),
        (BestOfQSettings, "endpoints=m", "endpoints is a table of settings, not 'm': set one of them, such as"),
    ],
)
def test_what_does_not_fit_is_one_sentence(cls: type[FrozenModel], settings: str, sentence: str) -> None:
    words = [settings] if settings.endswith("[1,") else settings.split()
    with pytest.raises(ConfigError) as caught:
        load_config(cls, None, words)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_missing_or_broken_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read: No such file"):
        load_config(Recipe, tmp_path / "none.toml")
    for text in ("runs = = 3", "runs = " + 5_000 * "9", "runs = " + 5_000 * "["):
        with pytest.raises(ConfigError, match=r"recipe\.toml is not TOML: "):
            load_config(Recipe, write(tmp_path, text))
    with pytest.raises(ConfigError, match=r"'training.expectile' is in quotes: .* training.expectile = 0.8"):
        load_config(Recipe, write(tmp_path, '"training.expectile" = 0.8'))


PLAYED = sorted(path for path in EXPERIMENTS.glob("*/config.toml") if path.with_name("result.json").exists())


@pytest.mark.parametrize("path", PLAYED, ids=lambda path: path.parent.name)
def test_a_committed_experiment_s_settings_are_settings_and_keep_its_network(path: Path) -> None:
    network = load_config(BestOfQSettings, path).iql.network
    result = json.loads((path.parent / "result.json").read_text())
    if "not_run" not in result:
        made = result["settings"]["iql"]["network"]
        assert (network.project, list(network.hidden)) == (made["project"], made["hidden"])


@pytest.mark.parametrize(
    ("tasks", "suite", "limit"),
    [
        (None, "webshop", 200),
        ("7", "webvoyager", 7),
        ("0", "webshop", 1),
        (None, "webvoyager", 1_000_000),
        ("click-*,enter-*", "miniwob", 1_000_000),
    ],
)
def test_how_many_tasks(tasks: str | None, suite: str, limit: int) -> None:
    assert limit_of(tasks, load_config(BestOfQSettings, None, [f"suite.name={suite}"]).suite) == limit


def test_data_is_the_suite_s_and_a_setting_has_the_last_word(tmp_path: Path) -> None:
    settings = models_of(CommonOptions(model="m", base_url=NOBODY, data=tmp_path)).settings
    assert settings.suite == WebShopSettings(data=tmp_path)
    assert settings.endpoints["chat"].model == "m"
    assert models_of(CommonOptions(set_=["suite.data=none"], data=tmp_path)).settings.suite == WebShopSettings()


@pytest.mark.parametrize("text", ["[a-z]*", "{a}", '"a"', "'a", "a\\b", "none"])
def test_the_value_of_an_option_is_no_toml(text: str) -> None:
    assert models_of(CommonOptions(), *named_only(text)).settings.suite.only == text
    settings = models_of(CommonOptions(model=text, base_url=NOBODY, data=Path(text))).settings
    assert (settings.endpoints["chat"].model, settings.suite.data) == (text, Path(text))


@pytest.mark.parametrize(
    ("model", "ships"), [("pocket", True), ("me/pocket", True), ("gpt-x", False), ("pocket-web", False)]
)
def test_a_q_function_ships_for_the_model_that_proposes_alone(model: str, ships: bool) -> None:
    models = models_of(CommonOptions(model=model, base_url=NOBODY))
    assert (shipped_q(models.settings) is not None) is ships
    with nullcontext() if ships else pytest.raises(ConfigError, match=r"--set model\.embedder="):
        check_embedder(models.settings)


def test_a_role_takes_the_endpoint_of_its_name_or_another_one() -> None:
    given = ["judge=chat", "localizer=vision"]
    models = models_of(CommonOptions(model="m", base_url=NOBODY, set_=given))
    assert isinstance(models.judge, ChatJudge)
    assert models.judge.model is models.endpoint
    assert make_localizer(models) == VisionLocalizer(models.endpoint)


@pytest.mark.parametrize(
    ("settings", "actions"), [((), "web"), (("preset=paper",), "paper"), (("preset=paper", "actions=web"), "web")]
)
def test_a_preset_lies_under_the_users_settings(settings: tuple[str, ...], actions: str) -> None:
    assert load_config(BestOfQSettings, settings=settings).actions == actions
