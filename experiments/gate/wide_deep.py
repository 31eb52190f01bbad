"""Wide and deep (Cheng et al. 2016) as one network trained by IQL, against its halves and the memory, offline.

python -m experiments.gate.wide_deep demo|shop: fifths of the tasks (shop: of the products) are held out in turn, and
the oracle judges contested steps. The wide part has a weight for each key of the memory, shrunk where few episodes hold
it; the deep part reads whitened, matched embeddings.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from bestofq.agents.scorers.memory import experiences, step_keys
from bestofq.cli.config import load_config
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.transitions import Floats
from bestofq.envs.splits import uniform
from bestofq.learning import iql
from bestofq.learning.config import IQLConfig, NetworkConfig
from bestofq.learning.memory import Keys, Memory
from bestofq.learning.networks import QNetwork, VNetwork
from bestofq.recipes.estimate import logs_of
from bestofq.recipes.q_training import select_episodes
from bestofq.reports.stats import UNIT, Doubles, Quantity
from bestofq.store.location import Location
from bestofq.store.store import Store
from experiments.ranking import oracle_steps

KEYS, SHRINK, RATE = 4, 2.0, 10.0  # of an action; pseudo-counts; how much faster the wide weights learn
CONFIG = IQLConfig(steps=2000, discount=0.95, network=NetworkConfig(hidden=(128, 64), project=64, scaling="whiten"))
INPUTS = ["value=network", "model.embed.matches=true"]


def make(network: type[QNetwork] | type[VNetwork], size: int, parts: str, dim: int, config: NetworkConfig) -> Any:
    """The library's network over all but the last numbers of a vector, and a sum of weights that these name."""

    class WideAndDeep(network):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__(dim - 2 * KEYS, config)
            self.wide = torch.nn.Embedding(size, 1)
            torch.nn.init.zeros_(self.wide.weight)

        def fit_scale(self, *vectors: Tensor) -> None:
            super().fit_scale(*(each[:, : -2 * KEYS] for each in vectors))

        def forward(self, *vectors: Tensor) -> Tensor:
            deep = super().forward(*(each[..., : -2 * KEYS] for each in vectors))
            named = vectors[1] if len(vectors) == 3 else vectors[0]  # the action's, or the state's
            ids, shares = named[..., -2 * KEYS : -KEYS].long(), named[..., -KEYS:]
            wide = RATE * (self.wide(ids)[..., 0] * shares).sum(-1)
            kept: Tensor = wide + 0 * deep if parts == "wide" else deep + 0 * wide if parts == "deep" else wide + deep
            return kept

    return WideAndDeep()


def name_keys(known: dict[str, int], counts: Floats, rows: Iterable[Keys]) -> Floats:
    """[.., 2 · KEYS]: the number of each key, and its share n / (n + k); zeros for what the episodes do not hold."""
    found = []
    for keys in rows:
        ids = np.array([known.get(key, 0) for key in [*keys, *[""] * (KEYS - len(keys))]])
        found.append([*ids, *(counts[ids] / (counts[ids] + SHRINK))])
    return np.array(found, np.float32)


def state_keys(step: Sequence[Keys]) -> Keys:
    goal = step[0][3].split("\x1f")[1]
    return [step[0][0], f"{goal}\x1f{step[0][0]}"]


def main(env: str) -> None:
    models = Models(load_config(BestOfQSettings, Path(f"experiments/memory/{env}.toml"), INPUTS))
    with Store.open(Location.of(f"runs/memory-{env}")) as store:
        data, episodes, _ = logs_of(models, store, select_episodes(store, ["seed"]))
    assert data is not None
    assert data.candidates is not None
    keys = [step for episode in episodes for step in step_keys(episode)]
    where = [episode for episode in episodes for _ in episode.steps]
    fold = np.array([int(uniform(f"fold {e.task.id if env == 'demo' else e.task.group}") * 5) for e in where])
    good, steps = [step.good for step in oracle_steps(models, episodes)], len(keys)
    right = {name: np.zeros(steps) for name in ("first", "memory", "deep", "wide", "wide and deep")}
    for number in range(5):
        here, taken = fold == number, [row.decision.chosen for e in episodes for row in e.steps]
        rest = {e.id: e for e, held in zip(where, here, strict=True) if not held}
        memory = Memory.learn(experiences(rest.values()), train_n=3)
        held = [key for at in np.flatnonzero(~here) for key in (*keys[at][taken[at]], *state_keys(keys[at]))]
        names = {key: at for at, key in enumerate(dict.fromkeys(held), 1)}
        counts = np.bincount([names[key] for key in held], minlength=len(names) + 1).astype(np.float32)
        numbered = partial(name_keys, names, counts)
        states = np.hstack([data.vectors[data.state], numbered(map(state_keys, keys))])
        actions = np.hstack([data.vectors[data.action], numbered(s[a] for s, a in zip(keys, taken, strict=True))])
        goals = np.pad(data.vectors, ((0, 0), (0, 2 * KEYS)))
        rows = np.flatnonzero(~here)
        after = np.where(data.terminal, np.arange(steps), np.arange(steps) + 1)
        training = replace(
            data, vectors=np.concatenate([states, actions, goals]), state=rows, action=steps + rows,
            task=2 * steps + data.task[rows], next_state=after[rows], reward=data.reward[rows],
            terminal=data.terminal[rows], candidates=None,
        )  # fmt: skip
        learned = {}
        for parts in ("deep", "wide", "wide and deep"):
            q, v = (partial(make, one, len(counts), parts) for one in (QNetwork, VNetwork))
            with patch.multiple(iql, QNetwork=q, VNetwork=v):
                learned[parts] = iql.train_iql(training, CONFIG).q.eval()
        for at in np.flatnonzero(here):
            vectors = np.hstack([data.vectors[data.candidates[at][: len(keys[at])]], numbered(keys[at])])
            state, action, task = map(torch.from_numpy, (states[[at]], vectors, goals[[data.task[at]]]))
            with torch.no_grad():
                values = {name: q(state, action, task).numpy() for name, q in learned.items()}
            values |= {"first": [1], "memory": [memory.recall(one) for one in keys[at]]}
            for name, numbers in values.items():
                right[name][at] = good[at][int(np.argmax(numbers))]
        sys.stdout.write(f"{env}: fold {number + 1} of 5\n")
    contested = [at for at in range(steps) if len({*good[at]}) > 1]
    result: dict[str, Any] = {"episodes": len(episodes), "contested steps": len(contested)}
    for name, found in right.items():
        counted: dict[Any, Doubles] = {}
        for step in contested:
            task_id = where[step].task.id
            counted[task_id] = counted.get(task_id, np.zeros(2)) + np.array([found[step], 1])
        mean = Quantity(counted, UNIT).measure
        assert mean.value is not None
        assert mean.interval is not None
        result[name] = [round(100 * end, 1) for end in (mean.value, mean.interval.low, mean.interval.high)]
    Path(f"experiments/gate/wide_deep-{env}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{result}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
