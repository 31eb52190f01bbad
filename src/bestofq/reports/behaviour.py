"""How agents behave, whatever they are paid for it: duplicates among candidates, loops, actions that cannot be done."""

from collections.abc import Hashable, Iterable, Mapping, Sequence

from bestofq.core.actions import identity
from bestofq.core.decision import Episode
from bestofq.reports.stats import UNIT, Quantity, tally_by_task
from bestofq.reports.table import RowSource, Table, columns

HEADS = (
    *("candidates / step", "short %", "duplicates %", "explored %", "same step again %", "page again %"),
    *("failed actions %", "episodes in a loop %", "steps / episode"),
)
LOOP = 3
"""So often the same action on the same page is a loop."""


def habits(episodes: Iterable[Episode], agent: str) -> dict[str, Quantity]:
    """What the agent does in its episodes among these, by the heads of the table's columns."""
    mine = [episode for episode in episodes if episode.agent == agent]
    most = max((len(step.decision.candidates) for episode in mine for step in episode.steps), default=0)
    counts = [((episode.task.suite, episode.task.id), _counts(episode, most)) for episode in mine]
    return {
        head: Quantity(
            tally_by_task((task, *found[head]) for task, found in counts), UNIT if head.endswith(" %") else None
        )
        for head in HEADS
    }


def _counts(episode: Episode, most: int) -> dict[str, tuple[float, float]]:
    """Part and whole of each measure in one episode, `most` being the candidates that its agent has at most."""
    count = len(episode.steps)
    repeats, returns, most_often = _again(episode)
    offered = [[c.label for c in step.decision.candidates] for step in episode.steps]
    candidates = sum(map(len, offered))
    after = [*(step.observation for step in episode.steps[1:]), *([episode.final] if episode.final else [])]
    return {
        "candidates / step": (candidates, count),
        "short %": (sum(len(labels) < most for labels in offered), count),
        "duplicates %": (sum(len(labels) - len(set(labels)) for labels in offered), candidates),
        "explored %": (sum(step.decision.explored for step in episode.steps), count),
        "same step again %": (repeats, count),
        "page again %": (returns, count),
        "failed actions %": (sum(page.error is not None for page in after), count),
        "episodes in a loop %": (most_often >= LOOP, 1),
        "steps / episode": (count, 1),
    }


def behaviour_table(episodes: Sequence[Episode], made: Mapping[str, RowSource]) -> Table:
    """A row an agent of `made`."""
    return Table.of(
        "behaviour",
        "Candidates, repetitions and loops",
        columns("agent", "episodes", *HEADS),
        [
            (agent, sum(e.agent == agent for e in episodes), *(h.measure for h in habits(episodes, agent).values()))
            for agent in made
        ],
        "Shares of steps, but duplicates: of candidates, and loops: of episodes. 95 % bootstrap over tasks.",
        "Short: fewer candidates than the agent's most, since equal actions are offered once. Duplicates: other "
        "actions with the same words.",
        f"A loop: the same action on the same page {LOOP} times or more.",
        made=made,
    )


def _again(episode: Episode) -> tuple[int, int, int]:
    """Steps that repeat a (page, action); steps on a page that was left before; how often the commonest was done."""
    done: dict[Hashable, int] = {}
    seen: set[Hashable] = set()
    repeats = returns = 0
    last: Hashable = None
    for step in episode.steps:
        page = step.observation.page
        returns += page in seen and page != last
        what = (page, identity(step.decision.candidate.action))
        repeats += what in done
        done[what] = done.get(what, 0) + 1
        seen.add(page)
        last = page
    return repeats, returns, max(done.values(), default=0)
