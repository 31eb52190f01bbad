"""Settings of the booking site."""

from typing import ClassVar, Literal

from pydantic import Field

from bestofq.envs.settings import NAME
from bestofq_sites.local_site.settings import LocalSiteSettings


class BookingSettings(LocalSiteSettings):
    name: Literal["booking"] = Field(default="booking", description=NAME)

    taught: ClassVar[str] = "pocket-agentq --set model.dialect=composite"
    rules: ClassVar[str] = "bestofq_sites.booking.suite:build_booking"
