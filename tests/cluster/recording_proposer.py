"""The model's own proposer, which records in whose memory the local model is; and models that record their batches."""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bestofq.config.agents import make_proposer as make
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Proposal, State
from bestofq.core.language import Generation, Request
from bestofq.core.protocols import Proposer


class RecordingProposer:
    def __init__(self, inner: Proposer, folder: Path) -> None:
        self._inner, self._folder = inner, folder

    async def propose(self, state: State, n: int) -> Proposal:
        said = "fails"
        try:
            proposal = await self._inner.propose(state, n)
            said = "holds" if "bestofq.models.local" in sys.modules else "asks"
        finally:
            (self._folder / f"{os.getpid()}.{said}").touch()
        return proposal


def make_proposer(models: Models) -> RecordingProposer:
    own = models.settings.model_copy(update={"proposer": None})
    return RecordingProposer(make(replace(models, settings=own)), Path(own.model.path).parent)


def recording(settings: BestOfQSettings, folder: Path) -> Models:
    """The models of the settings; a file `N.requests` for each size of the local one's batches."""
    models = Models(settings)
    inner = models.local.generate_batch

    def generate_batch(requests: Sequence[Request]) -> list[Generation]:
        (folder / f"{len(requests)}.requests").touch()
        return inner(requests)

    models.local.generate_batch = generate_batch  # type: ignore[method-assign]
    return models
