"""Settings of the booking site."""

from typing import Literal

from bestofq.envs.settings import LocalSiteSettings


class BookingSettings(LocalSiteSettings):
    name: Literal["booking"] = "booking"
