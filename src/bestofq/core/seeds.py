"""Seeds of random draws. Two episodes draw alike only if seed, run, agent, task and repeat are the same.

What a page holds does not depend on them: environments are reset with `Task.seed`, which is the same in every run.
"""

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bestofq.core.observation import Task


def episode_seed(seed: int, run: str, agent: str, task: "Task", repeat: int) -> int:
    """The seed of all draws of one episode, 63 bits. Other episodes do not change it."""
    return _derive_seed(seed, run, agent, task.suite, task.id, repeat)


def step_seed(episode: int, step: int) -> int:
    """The seed of the draws of one step of an episode, 63 bits; steps count from 0."""
    return _derive_seed(episode, step)


def _derive_seed(*of: int | str) -> int:
    digest = hashlib.sha256("\x1f".join(map(str, of)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
