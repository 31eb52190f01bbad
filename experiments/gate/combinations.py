"""Other ways to learn from the same episodes, and other gates, offline: by the oracle at contested steps, and by logs.

python -m experiments.gate.combinations demo|shop|booking: fifths of the groups (demo: of the tasks) are held out in
turn, and what the others taught ranks them; nothing is played. Needs scikit-learn.
"""

import json
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingRegressor  # type: ignore[import-not-found]

from bestofq.agents.scorers.memory import WordScorer, experiences, step_keys
from bestofq.cli.config import load_config
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Episode, state_at
from bestofq.core.logged import LoggedChoices
from bestofq.core.transitions import Floats
from bestofq.envs.splits import uniform
from bestofq.learning.memory import DISCOUNT, TRACE, Keys, Memory
from bestofq.recipes.estimate import Logs, rank_logs
from bestofq.recipes.q_training import episodes_of, select_episodes
from bestofq.reports.off_policy import first, local_approximation
from bestofq.reports.stats import Doubles, Quantity
from bestofq.store.location import Location
from bestofq.store.store import Store
from bestofq_sites.local_site.text import at_once
from experiments.gate.table import Table
from experiments.ranking import oracle_steps

BUCKETS, NETWORKS, EPOCHS = 4096, 5, 12
Step = Sequence[Keys]


def targets(
    steps: Sequence[Sequence[Step]], chosen: Sequence[Sequence[int]], won: Sequence[float], memory: Memory
) -> Floats:
    """The memory's targets of all steps [T], as `learning.memory` has them."""
    found: list[float] = []
    for own, outcome in zip(steps, won, strict=True):
        after, values = outcome, [outcome]
        for step in reversed(own[1:]):
            best = max(memory.recall(keys) for keys in step)
            after = DISCOUNT * (TRACE * after + (1 - TRACE) * best)
            values.append(after)
        found += reversed(values)
    return np.array(found, np.float32)


def code(text: str, buckets: int) -> int:
    return zlib.crc32(text.encode()) % buckets


def table_of(step: Step, number: int) -> Floats:
    """Features of a step's candidates [N, 9]: hashed page, kind and pattern, how the words fit, and places."""
    rows = []
    for at, keys in enumerate(step):
        _, page, kind, share, beyond, fit = keys[1].split("\x1f")
        fits = ("worse", "only", "best").index(fit), ("none", "some", "all").index(share), beyond == "True"
        rows.append([code(page, 250), code(kind, 250), code(keys[2], 250), *fits, at, len(step), number])
    return np.array(rows, np.float32)


def hashed(keys: Keys) -> tuple[list[int], list[int]]:
    """Buckets of the crosses (wide), and of the words of page, action and fit (deep)."""
    return [code(key, BUCKETS) for key in keys], [code(word, BUCKETS) for word in " ".join(keys[1:3]).split()]


class WideAndDeep(torch.nn.Module):
    """A weight for each cross, and a network over the words' vectors (Cheng et al. 2016)."""

    def __init__(self, *, wide: bool) -> None:
        super().__init__()
        self.crosses = torch.nn.EmbeddingBag(BUCKETS, 1, mode="sum") if wide else None
        if self.crosses is not None:
            torch.nn.init.zeros_(self.crosses.weight)
        self.words = torch.nn.EmbeddingBag(BUCKETS, 32, mode="mean")
        self.deep = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))

    def forward(self, crosses: Any, words: Any) -> Any:
        deep = self.deep(self.words(*words))[:, 0]
        return deep if self.crosses is None else deep + self.crosses(*crosses)[:, 0]


def bag(rows: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    flat = torch.tensor([one for row in rows for one in row])
    return flat, torch.tensor(np.cumsum([0, *(len(row) for row in rows[:-1])]))


def fit_network(keys: Sequence[Keys], y: Floats, seed: int, *, wide: bool) -> Callable[[Sequence[Keys]], Floats]:
    """Adam on squared errors, batches of 128."""
    torch.manual_seed(seed)
    net, rng, rows = WideAndDeep(wide=wide), np.random.default_rng(seed), [hashed(one) for one in keys]
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.005, weight_decay=0.01)
    for _ in range(EPOCHS):
        for part in np.array_split(rng.permutation(len(rows)), max(1, len(rows) // 128)):
            crosses, words = (bag([rows[at][side] for at in part]) for side in (0, 1))
            loss = (net(crosses, words) - torch.tensor(y[part])).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def values(some: Sequence[Keys]) -> Floats:
        net.eval()
        with torch.no_grad():
            found: Floats = net(*(bag([hashed(one)[side] for one in some]) for side in (0, 1))).numpy()
        return found

    return values


def fit_novelty(keys: Sequence[Keys]) -> Callable[[Sequence[Keys]], Floats]:
    """How far words lie from those of the episodes: mean square over the 32 whitened main axes and what they leave."""

    def counts(some: Sequence[Keys]) -> Floats:
        rows = np.zeros((len(some), 256), np.float32)
        for row, one in zip(rows, some, strict=True):
            np.add.at(row, [code(word, 256) for word in " ".join(one[1:3]).split()], 1)
        return rows

    seen = counts(keys)
    _, size, axes = np.linalg.svd(seen - seen.mean(axis=0), full_matrices=False)
    scale = size[:32] / np.sqrt(len(seen)) + 1e-3

    def novelty(some: Sequence[Keys]) -> Floats:
        centred = counts(some) - seen.mean(axis=0)
        inside = centred @ axes[:32].T
        left = np.maximum(0, (centred**2).sum(axis=1) - (inside**2).sum(axis=1))
        return np.asarray(((inside / scale) ** 2).mean(axis=1) + left)

    return novelty


def boost(x: Floats, y: Floats) -> Any:
    model = HistGradientBoostingRegressor(categorical_features=[0, 1, 2], max_iter=100, min_samples_leaf=10)
    return model.fit(x, y)


def rank_fold(
    rest: Sequence[Episode], here: Sequence[Episode], keys: Mapping[str, Sequence[Step]]
) -> dict[str, list[Floats]]:
    """Values of the candidates of each step of `here`, by each way to learn from `rest`."""
    memory, table = (kind.learn(experiences(rest), train_n=3) for kind in (Memory, Table))
    chosen = [[step.decision.chosen for step in one.steps] for one in rest]
    steps = [keys[one.id] for one in rest]
    y = targets(steps, chosen, [float(one.verdict.outcome == "success") for one in rest], memory)
    taken = [step[at] for own, places in zip(steps, chosen, strict=True) for step, at in zip(own, places, strict=True)]
    x = np.stack([table_of(step, number)[at] for own, places in zip(steps, chosen, strict=True)
                  for number, (step, at) in enumerate(zip(own, places, strict=True))])  # fmt: skip
    outcome = np.repeat([float(one.verdict.outcome == "success") for one in rest], [len(one.steps) for one in rest])
    recalled = np.array([memory.recall(one) for one in taken])
    boosted, plain, residual = boost(x, y), boost(x, outcome), boost(x, y - recalled)
    deep = [fit_network(taken, y, seed, wide=False) for seed in range(NETWORKS)]
    both = fit_network(taken, y, 0, wide=True)
    novelty = fit_novelty(taken)
    left = fit_network(taken, (y - recalled).astype(np.float32), 0, wide=False)
    asked = [step for one in here for step in keys[one.id]]
    flat, cuts = [each for step in asked for each in step], np.cumsum([len(step) for step in asked])[:-1]
    rows = np.concatenate([table_of(step, number) for one in here for number, step in enumerate(keys[one.id])])
    own, nets = np.array([memory.recall(each) for each in flat]), [net(flat) for net in deep]
    tree = boosted.predict(rows)
    mean = np.mean(nets, axis=0)
    ranked = {
        "first": -np.concatenate([np.arange(len(step)) for step in asked]),
        "table: three keys, outcomes": np.array([table.recall(each) for each in flat]),
        "memory": own,
        "gradient boosting of outcomes": plain.predict(rows),
        "gradient boosting of the memory's targets": tree,
        "memory, boosted residual": own + residual.predict(rows),
        "memory over boosting": np.array([memory.recall(k, float(p)) for k, p in zip(flat, tree, strict=True)]),
        "network over words": nets[0],
        "five networks": mean,
        "wide and deep": both(flat),
        "memory, network for the residual": own + left(flat),
        "memory over networks": np.array([memory.recall(k, float(p)) for k, p in zip(flat, mean, strict=True)]),
        "spread": np.std(nets, axis=0),
        "novelty": novelty(flat),
        "level": np.array([memory.familiarity(each) for each in flat]),
    }
    return {name: np.split(values, cuts) for name, values in ranked.items()}


def choose(log: LoggedChoices, best: Any, evidence: Floats, level: Any, rows: Any) -> Floats:
    """[levels] the lowest threshold of the evidence whose lift on these episodes has a lower bound above 0 (normal,
    clustered by task)."""
    part, steps = log.of(rows), rows[log.episode]
    base, found = first(part), np.full(6, np.inf)
    for each in range(6):
        here = (best[steps] > 0) & (level[steps] == each)
        for threshold in np.quantile(evidence[steps][here], (0.75, 0.5, 0.25, 0.0)) - 1e-6 if here.sum() > 5 else ():
            leaves = here & (evidence[steps] > threshold)
            pi = np.where(leaves[:, None], np.eye(base.shape[1])[best[steps]], base)
            counts = np.array([*local_approximation(part, pi, base).counts.values()])
            lift = counts[:, 0].sum() / counts[:, 1].sum()
            if lift > 1.96 * np.sqrt(((counts[:, 0] - lift * counts[:, 1]) ** 2).sum()) / counts[:, 1].sum():
                found[each] = threshold
    return found


def gate(log: LoggedChoices, q: Floats, evidence: Floats, level: Any, good: Sequence[Sequence[bool]]) -> dict[str, Any]:
    """Each half of the tasks behind the gate that the other half chose."""
    best, half = q.argmax(axis=1), np.array([uniform(f"half {task}") < 0.5 for task in log.task])
    leaves = np.zeros(len(best), bool)
    for rows in (half, ~half):
        limits, there = choose(log, best, evidence, level, ~rows), rows[log.episode]
        leaves |= there & (best > 0) & (evidence > limits[level])
    pi = np.where(leaves[:, None], np.eye(q.shape[1])[best], first(log))
    lift = local_approximation(log, pi, first(log)).difference
    contested = [at for at, right in enumerate(good) if len({*right}) > 1]
    right = np.mean([good[at][best[at] if leaves[at] else 0] for at in contested])
    lifts = [round(100 * end, 1) for end in (lift.mean, lift.low, lift.high)] if lift else None
    return {"leaves": round(float(leaves.mean()), 3), "contested right": round(100 * float(right), 1), "lift": lifts}


def rate_words(episode: Episode) -> list[Any]:
    states = [state_at(episode.task, episode.steps[:at], step.observation) for at, step in enumerate(episode.steps)]
    pairs = zip(states, episode.steps, strict=True)
    return [np.array(at_once(WordScorer().score(state, step.decision.candidates)).values) for state, step in pairs]


def main(env: str) -> None:
    models = Models(load_config(BestOfQSettings, Path(f"experiments/memory/{env}.toml"), ["value=memory"]))
    with Store.open(Location.of(f"runs/memory-{env}"), read_only=True) as store:
        episodes = [*episodes_of(store, [e for e in select_episodes(store, ["seed"]) if e.decided and e.steps])]
    keys = {one.id: [*step_keys(one)] for one in episodes}
    names = {one.id: one.task.id if env == "demo" else one.task.group for one in episodes}
    fold = {one.id: int(uniform(f"fold {names[one.id]}") * 5) for one in episodes}
    order, ranked, logs = list[Episode](), dict[str, list[Floats]](), []
    for number in range(5):
        here, rest = ([one for one in episodes if (fold[one.id] == number) is held] for held in (True, False))
        order += here
        for name, values in rank_fold(rest, here, keys).items():
            ranked.setdefault(name, []).extend(values)
        logs.append(rank_logs(Logs(None, here, {"seed": 0.5}), Memory({}, 0.0, 3)))
    log = LoggedChoices.concatenate(logs)
    good = [step.good for step in oracle_steps(models, order)]
    ranked["words"] = [values for one in order for values in rate_words(one)]
    result: dict[str, Any] = {"episodes": len(order), "tasks": len({one.task.id for one in order}), "right": {}}
    task = [one.task.id for one in order for _ in one.steps]
    for name, values in ranked.items():
        if name in ("spread", "level", "novelty"):
            continue
        counts: dict[Any, Doubles] = {}
        for at, right in enumerate(good):
            if len({*right}) > 1:
                counts[task[at]] = counts.get(task[at], np.zeros(2)) + np.array([right[int(np.argmax(values[at]))], 1])
        found = Quantity(counts, (0.0, 1.0)).measure
        assert found.value is not None
        assert found.interval is not None
        result["right"][name] = [round(100 * end, 1) for end in (found.value, found.interval.low, found.interval.high)]
        result["steps"] = int(sum(row[1] for row in counts.values()))
    result["gates"] = {}
    width = log.q.shape[1]
    for name in ("memory", "five networks"):
        q = np.stack([np.pad(row, (0, width - len(row)), constant_values=-np.inf) for row in ranked[name]])
        best = q.argmax(axis=1)
        margin = q.max(axis=1) - q[:, 0]
        spread = np.array([row[each] + row[0] for row, each in zip(ranked["spread"], best, strict=True)])
        level = np.array([int(row[each]) for row, each in zip(ranked["level"], best, strict=True)])
        known = np.array([row[each] for row, each in zip(ranked["level"], best, strict=True)], np.float32)
        new = -np.array([row[each] for row, each in zip(ranked["novelty"], best, strict=True)])
        alike = np.zeros_like(level)
        result["gates"][name] = {
            "none": {"contested right": result["right"][name][0]},
            "margin": gate(log, q, margin, alike, good),
            "margin over the networks' spread": gate(log, q, margin / (spread + 0.01), alike, good),
            "novelty": gate(log, q, new, alike, good),
            "margin over spread and novelty": gate(log, q, margin / (spread + 0.01) / (1 - new), alike, good),
            "familiarity": gate(log, q, known, alike, good),
            "margin by familiarity (the library's)": gate(log, q, margin, level, good),
            "margin over spread by familiarity": gate(log, q, margin / (spread + 0.01), level, good),
        }
    Path(f"experiments/gate/combinations-{env}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
