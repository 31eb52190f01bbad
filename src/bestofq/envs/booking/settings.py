"""Settings of the booking site."""

from typing import ClassVar, Literal

from bestofq.envs.settings import LocalSiteSettings


class BookingSettings(LocalSiteSettings):
    name: Literal["booking"] = "booking"

    rules: ClassVar[str] = "bestofq.envs.booking.suite:booking"
