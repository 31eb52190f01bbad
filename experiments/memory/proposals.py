"""The same candidates for every agent: what the model proposes in a state is drawn once, and kept.

python -m experiments.memory.proposals write|read FILE.jsonl    all that is kept, as lines that can be committed
"""

import hashlib
import json
import sqlite3
import sys
from pathlib import Path

from bestofq.agents.prompting import propose_prompt
from bestofq.config import agents
from bestofq.config.models import Models
from bestofq.core.decision import Proposal, State
from bestofq.core.protocols import Proposer

FILE = Path("runs/memory-proposals.sqlite")
N = 3


def open_kept() -> sqlite3.Connection:
    FILE.parent.mkdir(exist_ok=True)
    kept = sqlite3.connect(FILE, isolation_level=None)
    kept.execute("create table if not exists proposals (key text primary key, proposal text)")
    return kept


class KeptProposer:
    """`Proposer` whose draws depend on the task, the prompt and the number of the step alone, not on the agent."""

    def __init__(self, proposer: Proposer, facts: str) -> None:
        self.proposer, self.facts, self.kept = proposer, facts, open_kept()

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
    if (chat := settings.endpoint_of("chat")) is not None:
        drawn = (settings.candidates, settings.thoughts, settings.actions)
        facts = json.dumps((chat.model, chat.temperature, chat.max_tokens, *drawn))
    return KeptProposer(agents.make_proposer(models.with_settings(settings)), facts)


def main() -> None:
    word, path, kept = sys.argv[1], Path(sys.argv[2]), open_kept()
    if word == "read":
        lines = map(json.loads, path.read_text().splitlines())
        kept.executemany(
            "insert or ignore into proposals values (?, ?)", ((key, json.dumps(row)) for key, row in lines)
        )
        return
    rows = kept.execute("select key, proposal from proposals order by key").fetchall()
    short = [(key, Proposal.model_validate_json(text).model_dump(mode="json", exclude_none=True)) for key, text in rows]
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in short))


if __name__ == "__main__":
    main()
