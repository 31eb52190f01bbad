"""Who is right at contested steps of held-out training tasks? By the suite's oracle; nothing is played.

python -m experiments.memory.contested shop runs/memory-shop --set value=network: a fifth of the products (the first
part of a task's id) is held out, and what the others taught ranks them.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bestofq.agents.scorers.memory import WordScorer, step_keys
from bestofq.cli.config import load_config
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.core.decision import Episode, state_at
from bestofq.core.transitions import Floats
from bestofq.envs.splits import uniform
from bestofq.recipes.estimate import logs_of
from bestofq.recipes.q_training import select_episodes, train_q
from bestofq.rollouts.console import console
from bestofq.store.location import Location
from bestofq.store.store import Store
from bestofq_sites.local_site.text import at_once
from experiments.ranking import oracle_steps


def main(config: str, place: str, *settings: str) -> None:
    """Print the shares of contested steps that are right, as JSON."""
    chosen = [word for word in settings if word != "--set"]
    models = Models(load_config(BestOfQSettings, Path(f"experiments/memory/{config}.toml"), chosen))
    with Store.open(Location.of(place)) as store, tempfile.TemporaryDirectory() as folder:
        episodes = [one for one in select_episodes(store, ["seed"]) if one.decided and one.steps]
        held = {e.id for e in episodes if uniform(e.key.task.partition("-")[0]) < 0.2}
        values = train_q(Path(folder), models, store, [e for e in episodes if e.id not in held])
        logs = logs_of(models, store, [e for e in episodes if e.id in held])
        good = [step.good for step in oracle_steps(models, logs.episodes)]
        memory = values.memory
    assert memory is not None
    keys = [step for episode in logs.episodes for step in step_keys(episode)]
    ranked: dict[str, Sequence[Floats]] = {
        "first": [-np.arange(len(step), dtype=np.float32) for step in keys],
        "words": [score for episode in logs.episodes for score in _words(episode)],
        "memory": [np.array([memory.recall(one) for one in step]) for step in keys],
    }
    contested = [at for at, right in enumerate(good) if len(set(right)) > 1]
    shares = {name: np.mean([good[at][int(np.argmax(rows[at]))] for at in contested]) for name, rows in ranked.items()}
    console.print(
        json.dumps({"steps": len(contested), **{name: round(float(share), 3) for name, share in shares.items()}}),
        soft_wrap=True,
    )


def _words(episode: Episode) -> list[Floats]:
    states = [state_at(episode.task, episode.steps[:at], step.observation) for at, step in enumerate(episode.steps)]
    pairs = zip(states, episode.steps, strict=True)
    return [np.array(at_once(WordScorer().score(state, step.decision.candidates)).values) for state, step in pairs]


if __name__ == "__main__":
    main(*sys.argv[1:])
