"""How agents behave, whatever they are paid for it: duplicates among candidates, loops, actions that cannot be done."""

from collections.abc import Hashable, Iterable, Mapping, Sequence

from bestofq.core.actions import identity
from bestofq.core.decision import Episode
from bestofq.core.noun import Noun
from bestofq.reports import stats
from bestofq.reports.stats import Measure, Tally, tallied
from bestofq.reports.table import Origin, Table, columns, rows_of


class Behaviour(Noun):
    """One agent's habits; each measure is over tasks."""

    agent: str
    episodes: int
    candidates: Measure  # a step
    short: Measure  # share of steps with fewer candidates than the agent's most
    duplicates: Measure  # share of candidates that have the same words as an earlier one of their step
    explored: Measure  # share of steps
    repeated: Measure  # share of steps that do again what was done on the same page
    returned: Measure  # share of steps on a page that was left before
    failed: Measure  # share of steps whose action could not be carried out
    looping: Measure  # share of episodes with three same steps or more
    steps: Measure  # an episode


SHARES = ("short", "duplicates", "explored", "repeated", "returned", "failed", "looping")
MEASURES = ("candidates", *SHARES, "steps")
LOOP = 3
"""So often the same action on the same page is a loop."""


def behaviour(episodes: Sequence[Episode], agent: str) -> Behaviour:
    """The habits of the agent in its episodes among these. Undefined measures where it has none."""
    measures = {
        name: stats.ratio(tally, span=stats.UNIT if name in SHARES else None)
        for name, tally in habits(episodes, agent).items()
    }
    return Behaviour(agent=agent, episodes=sum(episode.agent == agent for episode in episodes), **measures)


def habits(episodes: Iterable[Episode], agent: str) -> dict[str, Tally]:
    """What `Behaviour`'s measures are ratios of, by their names."""
    mine = [episode for episode in episodes if episode.agent == agent]
    most = max((len(step.decision.candidates) for episode in mine for step in episode.steps), default=0)
    counts = [((episode.task.suite, episode.task.id), _counts(episode, most)) for episode in mine]
    return {name: tallied((task, *found[name]) for task, found in counts) for name in MEASURES}


def _counts(episode: Episode, most: int) -> dict[str, tuple[float, float]]:
    """Part and whole of each measure in one episode."""
    count = len(episode.steps)
    repeats, returns, most_often = _again(episode)
    offered = [[c.label for c in step.decision.candidates] for step in episode.steps]
    candidates = sum(map(len, offered))
    after = [*(step.observation for step in episode.steps[1:]), *([episode.final] if episode.final else [])]
    return {
        "candidates": (candidates, count),
        "short": (sum(len(labels) < most for labels in offered), count),
        "duplicates": (sum(len(labels) - len(set(labels)) for labels in offered), candidates),
        "explored": (sum(step.decision.explored for step in episode.steps), count),
        "repeated": (repeats, count),
        "returned": (returns, count),
        "failed": (sum(page.error is not None for page in after), count),
        "looping": (most_often >= LOOP, 1),
        "steps": (count, 1),
    }


def behaviour_table(rows: Iterable[Behaviour], made: Mapping[str, Origin]) -> Table:
    """A row an agent."""
    return Table(
        name="behaviour",
        title="Candidates, repetitions and loops",
        columns=columns(
            *("agent", "episodes", "candidates / step", "short %", "duplicates %", "explored %", "same step again %"),
            *("page again %", "failed actions %", "episodes in a loop %", "steps / episode"),
        ),
        rows=rows_of(rows, made, "agent", "episodes", *MEASURES),
        notes=(
            "Shares of steps, but duplicates: of candidates, and loops: of episodes. 95 % bootstrap over tasks.",
            "Short: fewer candidates than the agent's most, since equal actions are offered once. Duplicates: other "
            "actions with the same words.",
            f"A loop: the same action on the same page {LOOP} times or more.",
        ),
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
