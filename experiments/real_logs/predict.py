"""Does a value tell, at each step of real runs, how they will end? Held out by task, by like goals and by site.

    python -m experiments.real_logs.predict runs/real-logs

The area under the ROC curve (AUC) of each value of the step taken, against the outcome of its episode, among the runs
that have that step. Its 95 % interval resamples tasks. Nothing is chosen: every rule has the settings of the library.
"""

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from bestofq.agents.scorers.memory import experiences
from bestofq.core.decision import DECIDED, Episode
from bestofq.core.transitions import Floats
from bestofq.learning.memory import Experience, Memory
from bestofq.recipes.identity import commit
from bestofq.rollouts.console import console
from bestofq.store.location import Location
from bestofq.store.store import Store

FOLDS, RESAMPLES, SEED = 10, 1000, 0
STEPS = (1, 3, 5, 10)
Values = Callable[[Episode], Sequence[float]]
"""Of an episode's steps."""


def won(episode: Episode) -> float:
    return float(episode.verdict.outcome == "success")


def agent(train: Sequence[Episode]) -> Values:
    """The agent's success."""
    rates = {name: np.mean([won(one) for one in train if one.agent == name]) for name in {one.agent for one in train}}
    return lambda episode: [float(rates[episode.agent])] * len(episode.steps)


def agent_and_step(train: Sequence[Episode]) -> Values:
    """The success of the agent's runs that had this step, shrunk to that of those that had the step before."""
    runs = defaultdict[tuple[str, int], list[float]](list)
    for one in train:
        for step in one.steps:
            runs[one.agent, step.index].append(won(one))

    def values(episode: Episode) -> list[float]:
        found, value = list[float](), 0.5
        for step in episode.steps:
            some = runs[episode.agent, step.index]
            value = (sum(some) + 2 * value) / (len(some) + 2)
            found.append(value)
        return found

    return values


def words(train: Sequence[Episode], said_at: Callable[[Episode], Iterable[set[str]]]) -> Values:
    """Naive Bayes on the words of each step."""
    counts: dict[float, Counter[str]] = {0.0: Counter(), 1.0: Counter()}
    for one in train:
        for said in said_at(one):
            counts[won(one)].update(said)
    sums = {outcome: sum(words.values()) for outcome, words in counts.items()}
    known = counts[0.0].keys() | counts[1.0].keys()

    def odds(word: str) -> float:
        good, bad = ((counts[end][word] + 1) / (sums[end] + len(known)) for end in (1.0, 0.0))
        return float(np.log(good / bad))

    return lambda episode: [sum(odds(word) for word in said & known) for said in said_at(episode)]


def own_words(episode: Episode) -> Iterable[set[str]]:
    for step in episode.steps:
        one = step.decision.candidate
        yield set(re.findall(r"[a-z']{2,}", f"{one.thought or ''} {one.explanation or ''}".lower()))


def goal_words(episode: Episode) -> Iterable[set[str]]:
    return [set(re.findall(r"[a-z']{2,}", episode.task.goal.lower()))] * len(episode.steps)


_experiences: dict[str, Experience] = {}


def experience(episode: Episode) -> Experience:
    if episode.id not in _experiences:
        (_experiences[episode.id],) = experiences([episode])
    return _experiences[episode.id]


def memory(train: Sequence[Episode], prior: Callable[[Sequence[Episode]], Values] | None = None) -> Values:
    """The default Q; `prior` gives what its coarsest key shrinks to."""
    learned, base = Memory.learn(map(experience, train), train_n=1), prior(train) if prior else None

    def values(episode: Episode) -> list[float]:
        bases: Sequence[float | None] = base(episode) if base else [None] * len(episode.steps)
        steps = experience(episode).steps
        return [learned.recall(keys[0], prior=value) for (keys, _), value in zip(steps, bases, strict=True)]

    return values


RULES: dict[str, Callable[[Sequence[Episode]], Values]] = {
    "step number": lambda _: lambda episode: [-float(step.index) for step in episode.steps],
    "agent": agent,
    "agent and step number": agent_and_step,
    "the goal's words": lambda train: words(train, goal_words),
    "the agent's own words": lambda train: words(train, own_words),
    "memory (default Q)": memory,
    "memory over agent and step number": lambda train: memory(train, agent_and_step),
}


def auc(values: Floats, outcomes: Floats, groups: Floats) -> float:
    """Of the pairs of a success and a failure in one group, the share in which the success has the higher value; equals
    count half."""
    right, pairs = 0.0, 0
    for group in np.unique(groups):
        good, bad = (values[(groups == group) & (outcomes == end)] for end in (1.0, 0.0))
        bad = np.sort(bad)
        right += (np.searchsorted(bad, good, "left") + np.searchsorted(bad, good, "right")).sum() / 2
        pairs += len(good) * len(bad)
    return right / pairs if pairs else float("nan")


def interval(values: Floats, episodes: Sequence[Episode], folds: Sequence[int], *, same_agent: bool) -> list[float]:
    """The AUC, and its 95 % interval. Pairs are of one fold: what two folds learned is not to be compared."""
    outcomes = np.array([won(one) for one in episodes])
    names = [f"{fold} {one.agent if same_agent else ''}" for one, fold in zip(episodes, folds, strict=True)]
    groups = np.unique(names, return_inverse=True)[1].astype(np.float32)
    rows = defaultdict[str, list[int]](list)
    for row, one in enumerate(episodes):
        rows[one.task.id].append(row)
    draws, tasks = np.random.default_rng(SEED), [np.array(some) for some in rows.values()]
    drawn = []
    for _ in range(RESAMPLES):
        at = np.concatenate([tasks[n] for n in draws.integers(len(tasks), size=len(tasks))])
        drawn.append(auc(values[at], outcomes[at], groups[at]))
    low, high = np.nanquantile(drawn, (0.025, 0.975))
    return [round(float(number), 3) for number in (auc(values, outcomes, groups), low, high)]


def main(place: str) -> None:
    """Print the tables as JSON."""
    with Store.open(Location.of(place), read_only=True) as store:
        episodes = [one for one in store.episodes() if one.verdict.outcome in DECIDED and one.steps]
    made = {"command": f"python -m experiments.real_logs.predict {place}", "seed": SEED, "commit": commit()}
    steps = [(step.decision.candidate.action, step.observation) for one in episodes for step in one.steps]
    marked = [(mark, seen) for action, seen in steps if (mark := getattr(action, "mark", None))]
    understood = {
        "steps": len(steps),
        "actions understood": sum(action.kind != "other" for action, _ in steps),
        "actions on an element": len(marked),
        "elements with a name": sum(
            any(one.mark == mark and one.name for one in seen.elements) for mark, seen in marked
        ),
    }
    report: dict[str, Any] = {**made, "episodes": len(episodes), **understood}
    groups: dict[str, Callable[[Episode], str]] = {
        "task": lambda one: one.task.id,
        "the goal's first three words": lambda one: " ".join(one.task.goal.lower().split()[:3]),
        "site": lambda one: one.task.id.split("--")[1],
    }
    for unit, group in groups.items():
        names = sorted({group(one) for one in episodes})
        fold = {name: at % FOLDS for at, name in enumerate(np.random.default_rng(SEED).permutation(names))}
        values: dict[str, dict[str, Sequence[float]]] = {rule: {} for rule in RULES}
        for held in range(FOLDS):
            train, test = ([one for one in episodes if (fold[group(one)] == held) == out] for out in (False, True))
            for rule, learn in RULES.items():
                learned = learn(train)
                values[rule] |= {one.id: learned(one) for one in test}
        for same in (False, True):
            table = report[f"held out by {unit} ({len(names)}){', pairs of one agent' if same else ''}"] = {}
            for rule, known in values.items():
                for name, at in {**{f"step {step}": step - 1 for step in STEPS}, "last step": -1}.items():
                    there = [one for one in episodes if len(one.steps) > at]
                    found = np.array([known[one.id][at] for one in there])
                    table.setdefault(rule, {})[name] = interval(
                        found, there, [fold[group(one)] for one in there], same_agent=same
                    )
    console.print(json.dumps(report, indent=1), soft_wrap=True, markup=False, highlight=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
