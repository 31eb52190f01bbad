"""Settings of the booking site."""

from typing import ClassVar, Literal

from pydantic import Field

from bestofq.envs.settings import NAME, LocalSiteSettings


class BookingSettings(LocalSiteSettings):
    name: Literal["booking"] = Field(default="booking", description=NAME)

    rules: ClassVar[str] = "bestofq.envs.booking.suite:build_booking"
