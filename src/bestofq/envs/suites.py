"""The suites by name, each made when it is needed, and suites of a user's own."""

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, TypeAlias, cast

from pydantic import Discriminator, Tag, ValidationError

from bestofq.core.errors import BestOfQError, ConfigError
from bestofq.core.frozen import reason_of
from bestofq.core.loading import call_object, list_plugins, load_part, make_part, object_name
from bestofq.core.protocols import Suite
from bestofq.envs.miniwob.settings import MiniWobSettings
from bestofq.envs.settings import OwnSuiteSettings, SuiteSettings
from bestofq.envs.webvoyager.settings import WebVoyagerSettings

SUITES: Mapping[str, str] = {  # what makes each suite of the library from its settings
    "miniwob": "bestofq.envs.miniwob.suite:MiniWob",
    "webvoyager": "bestofq.envs.webvoyager.suite:WebVoyager",
}
KINDS: Mapping[str, type[SuiteSettings]] = {
    **{name: cast(type[SuiteSettings], load_part("suite_setting", name)) for name in list_plugins("suite_setting")},
    "miniwob": MiniWobSettings,
    "webvoyager": WebVoyagerSettings,
}
"""The settings class of each suite. An installed package names its own in the entry points of the group
`bestofq.suite_settings`."""
_OWN = "own"


def _tag(settings: object) -> str:
    """The kind of settings. ConfigError if there is no suite of that name."""
    if isinstance(settings, OwnSuiteSettings):
        return _OWN
    name = str(
        settings.get("name", "webshop") if isinstance(settings, Mapping) else getattr(settings, "name", "webshop")
    )
    if name in KINDS:
        return name
    object_name("suite", name, SUITES)
    return _OWN


if TYPE_CHECKING:
    AnySuiteSettings: TypeAlias = SuiteSettings
else:
    _tagged = [Annotated[kind, Tag(name)] for name, kind in {**KINDS, _OWN: OwnSuiteSettings}.items()]
    AnySuiteSettings = Annotated[reduce(or_, _tagged), Discriminator(_tag)]


def default_suite() -> SuiteSettings:
    """The settings of the shop. Without its package they only name it, and `make_suite` says what to install."""
    return KINDS["webshop"](name="webshop") if "webshop" in KINDS else OwnSuiteSettings(name="webshop")


def make_suite(settings: SuiteSettings) -> Suite:
    """The suite that the settings name. ConfigError if a suite of the user's own cannot be made."""
    name = settings.name
    if name in KINDS:
        return cast(Suite, call_object(SUITES.get(name) or object_name("suite", name), settings))
    try:
        return cast(Suite, make_part("suite", name, Suite, settings.model_dump(), built_in=SUITES))
    except ValidationError as error:
        raise ConfigError(f"{name} refuses suite.{reason_of(error)}") from error
    except BestOfQError:
        raise
    except Exception as error:  # whatever the user's own does
        raise ConfigError(f"{name} made no suite: it raised {type(error).__name__}: {error}") from error
