"""The suites by name, each made when it is asked for, and suites of a user's own."""

from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import Discriminator, Tag, ValidationError

from bestofq.core.errors import BestOfQError, ConfigError
from bestofq.core.loading import load_object
from bestofq.core.plugins import object_name
from bestofq.core.protocols import Suite
from bestofq.envs.booking.settings import BookingSettings
from bestofq.envs.miniwob.settings import MiniWobSettings
from bestofq.envs.quirks.settings import QuirksSettings
from bestofq.envs.settings import OwnSuiteSettings, SuiteSettings
from bestofq.envs.webshop.settings import WebShopSettings
from bestofq.envs.webvoyager.settings import WebVoyagerSettings

SUITES: Mapping[str, str] = {
    "webshop": "bestofq.envs.local_site.suite:LocalSuite",
    "booking": "bestofq.envs.local_site.suite:LocalSuite",
    "quirks": "bestofq.envs.local_site.suite:LocalSuite",
    "miniwob": "bestofq.envs.miniwob.suite:MiniWob",
    "webvoyager": "bestofq.envs.webvoyager.suite:WebVoyager",
}
"""What makes each suite from its settings."""
_OWN = "own"


def _tag(settings: object) -> str:
    """ConfigError where there is no suite of that name."""
    given = str(
        settings.get("name", "webshop") if isinstance(settings, Mapping) else getattr(settings, "name", "webshop")
    )
    if given in SUITES:
        return given
    object_name("suite", given, SUITES)
    return _OWN


AnySuiteSettings = Annotated[
    Annotated[WebShopSettings, Tag("webshop")]
    | Annotated[BookingSettings, Tag("booking")]
    | Annotated[QuirksSettings, Tag("quirks")]
    | Annotated[MiniWobSettings, Tag("miniwob")]
    | Annotated[WebVoyagerSettings, Tag("webvoyager")]
    | Annotated[OwnSuiteSettings, Tag(_OWN)],
    Discriminator(_tag),
]


def make_suite(settings: SuiteSettings) -> Suite:
    """The suite that the settings name. ConfigError where a suite of the user's own cannot be made."""
    name = settings.name
    make = cast(Any, load_object(SUITES.get(name) or object_name("suite", name, SUITES)))
    if name in SUITES:
        return cast(Suite, make(settings))
    if not callable(make):
        raise ConfigError(f"{name} is {make!r}: name a function or a class that takes a table of settings")
    try:
        suite = make(settings.model_dump())
    except ValidationError as error:
        wrong = error.errors()[0]
        raise ConfigError(f"{name} refuses suite.{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}") from error
    except BestOfQError:
        raise
    except Exception as error:  # whatever the user's own does
        raise ConfigError(f"{name} made no suite: it raised {type(error).__name__}: {error}") from error
    if not isinstance(suite, Suite):
        raise ConfigError(
            f"{name} gave {suite!r}, which is no suite: it must have name, step_limit, sandboxed, needs_judge, judge, "
            "tasks and open (bestofq.core.protocols.Suite)"
        )
    return suite
