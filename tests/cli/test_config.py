import json
from pathlib import Path
from typing import Literal, Self

import pytest
from pydantic import Field, model_validator

from bestofq.cli.config import load_config, setting_names
from bestofq.config.settings import BestOfQSettings
from bestofq.core.errors import ConfigError
from bestofq.core.frozen import FrozenModel

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


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
    path = write(tmp_path, 'name = "toys"\nruns = 3\n[training]\nexpectile = 0.9\nhidden = [8, 8, 8]\n')
    assert load_config(Recipe) == Recipe()
    assert load_config(Recipe, path, ["runs=4", "training.expectile=0.8", "runs=6"]) == Recipe(
        name="toys", runs=6, training=Training(expectile=0.8, hidden=(8, 8, 8))
    )


def test_none_in_a_file_is_no_value(tmp_path: Path) -> None:
    path = write(tmp_path, '[training]\nproject = "none"\n')
    assert load_config(Recipe, path) == Recipe(training=Training(project=None))


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


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("training.expectil=0.8", "There is no setting training.expectil; the nearest is training.expectile."),
        ("expectile=0.8", "There is no setting expectile; the nearest is training.expectile."),
        ("training.expectile=1.5", "The setting training.expectile is '1.5': input should be less than 1."),
        ("runs=many", "The setting runs is 'many': input should be a valid integer"),
        ("device=tpu", "The setting device is 'tpu': input should be 'cpu' or 'cuda'."),
        ("training=5", "training is a table of settings, not '5': set one of them, such as training.expectile."),
        ("tasks=900", "The settings do not fit: 5 runs of 900 tasks are more than 1000 episodes."),
        ("runs", "--set takes name=value, such as iql.expectile=0.8, not 'runs'."),
        ("training..expectile=1", "--set takes name=value"),
        ("training.hidden=[1,", "--set training.hidden=[1,: the value is not TOML"),
    ],
)
def test_what_does_not_fit_is_one_sentence(setting: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(Recipe, None, [setting])
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_a_setting_of_several_kinds_is_named_as_it_is_set() -> None:
    with pytest.raises(ConfigError, match=r"setting iql\.network\.hidden is 'big': .*'auto' or 'paper'"):
        load_config(BestOfQSettings, None, ["iql.network.hidden=big"])


def test_a_setting_in_a_table_of_several_kinds_says_what_it_takes() -> None:
    with pytest.raises(ConfigError, match=r"setting suite\.env is 'paper': input should be 'text' or 'browser'"):
        load_config(BestOfQSettings, None, ["suite.env=paper"])
    with pytest.raises(ConfigError, match=r"suite is a table of settings, not 'booking': .*such as suite\.name"):
        load_config(BestOfQSettings, None, ["suite=booking"])


def test_a_name_like_no_other_lists_them_all() -> None:
    with pytest.raises(ConfigError, match=r"no setting zzzz; there are name, runs, .*training\.project"):
        load_config(Recipe, None, ["zzzz=1"])


def test_a_value_has_no_settings_below_it() -> None:
    with pytest.raises(ConfigError, match="runs is a value, not a table"):
        load_config(Recipe, None, ["runs=3", "runs.more=4"])


def test_a_file_that_is_missing_or_broken_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read: No such file"):
        load_config(Recipe, tmp_path / "none.toml")
    with pytest.raises(ConfigError, match=r"recipe\.toml is not TOML: .*line 1"):
        load_config(Recipe, write(tmp_path, "runs = = 3"))


def test_names_of_all_settings() -> None:
    assert list(setting_names(Training)) == ["expectile", "hidden", "project"]


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob("*/config.toml")), ids=lambda path: path.parent.name)
def test_a_committed_experiment_s_settings_are_settings_and_keep_its_network(path: Path) -> None:
    network = load_config(BestOfQSettings, path).iql.network
    result = json.loads((path.parent / "result.json").read_text())
    if "not_run" not in result:
        made = result["settings"]["iql"]["network"]
        assert (network.project, list(network.hidden)) == (made["project"], made["hidden"])
