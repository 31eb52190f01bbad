"""Settings of the sites with quirks."""

from typing import ClassVar, Literal

from pydantic import Field

from bestofq.envs.settings import NAME
from bestofq_sites.local_site.settings import LocalSiteSettings


class QuirksSettings(LocalSiteSettings):
    name: Literal["quirks"] = Field(default="quirks", description=NAME)
    sites: int = Field(default=12, ge=1, le=16, description="sites of each split, shops and restaurants in turn")
    tasks_per_site: int = Field(default=100, ge=10, le=300, description="of all splits together")
    quirky: float = Field(default=0.6, ge=0, le=1, description="chance that a step of a site has a quirk; 0: ordinary")
    splits: Literal["task", "site"] = Field(
        default="task",
        description="what dev and test keep apart from train: tasks on the same sites, or sites with other rules too",
    )

    taught: ClassVar[str] = "pocket-quirks"
    rules: ClassVar[str] = "bestofq_sites.quirks.suite:Quirks"
