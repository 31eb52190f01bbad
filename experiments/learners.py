"""Learners for `iql.learner` that `bestofq estimate` is judged by: no bootstrapping, no knowledge, harm."""

from dataclasses import replace

import numpy as np

from bestofq.core.transitions import Floats, Transitions
from bestofq.learning.config import IQLConfig
from bestofq.learning.iql import IQL, train_iql


def monte_carlo(data: Transitions, config: IQLConfig) -> IQL:
    """Learn Q towards the discounted return of the episode itself."""
    return train_iql(replace(data, reward=returns(data, config.discount), terminal=np.ones_like(data.terminal)), config)


def returns(data: Transitions, discount: float) -> Floats:
    """[T], the reward at the end of each row's episode, discounted by the steps to it."""
    end = data.ends
    return (data.reward[end] * discount ** (end - np.arange(len(data)))).astype(np.float32)


def shuffled_outcomes(data: Transitions, config: IQLConfig) -> IQL:
    """Learn by IQL from outcomes that are dealt out anew among the episodes: this Q knows nothing."""
    reward = data.reward.copy()
    reward[data.terminal] = np.random.default_rng(config.seed).permutation(reward[data.terminal])
    return train_iql(replace(data, reward=reward), config)


def reversed_outcomes(data: Transitions, config: IQLConfig) -> IQL:
    """Learn by IQL from rewards of failures instead of successes: this Q harms."""
    return train_iql(replace(data, reward=np.where(data.terminal, 1 - data.reward, 0).astype(np.float32)), config)
