"""The same candidates for every agent: what the model proposes in a state is drawn once, and kept."""

import hashlib
import json
import sqlite3
from pathlib import Path

from bestofq.agents.prompting import propose_prompt
from bestofq.config import agents
from bestofq.config.models import Models
from bestofq.core.decision import Proposal, State
from bestofq.core.protocols import Proposer

FILE = Path("runs/memory-proposals.sqlite")
N = 3


class KeptProposer:
    """`Proposer` whose draws depend on the task, the prompt and the number of the step alone, not on the agent."""

    def __init__(self, proposer: Proposer, facts: str) -> None:
        FILE.parent.mkdir(exist_ok=True)
        self.proposer, self.facts, self.kept = proposer, facts, sqlite3.connect(FILE, isolation_level=None)
        self.kept.execute("create table if not exists proposals (key text primary key, proposal text)")

    async def propose(self, state: State, n: int) -> Proposal:
        """The first `n` of `N` candidates."""
        facts = self.facts, state.task.suite, state.task.id, str(len(state.decisions)), propose_prompt(state)
        digest = hashlib.sha256("\x1f".join(facts).encode())
        key, seed = digest.hexdigest(), int.from_bytes(digest.digest()[:4]) >> 1
        row = self.kept.execute("select proposal from proposals where key = ?", (key,)).fetchone()
        if row is None:
            found = await self.proposer.propose(state.model_copy(update={"seed": seed}), N)
            self.kept.execute("insert or replace into proposals values (?, ?)", (key, found.model_dump_json()))
        else:
            found = Proposal.model_validate_json(row[0])
        return found.model_copy(update={"candidates": found.candidates[:n]})


def make_proposer(models: Models) -> KeptProposer:
    """The proposer of the settings, with its draws kept."""
    settings = models.settings.model_copy(update={"proposer": None})
    facts = settings.model.model_dump_json(include={"path", "temperature", "samples_per_candidate", "dialect"})
    if settings.chat is not None:
        chat, drawn = settings.chat, (settings.candidates, settings.thoughts, settings.actions)
        facts = json.dumps((chat.model, chat.temperature, chat.max_tokens, *drawn))
    return KeptProposer(agents.make_proposer(models.with_settings(settings)), facts)
