"""Ways other than IQL to learn Q, for `iql.learner`. How they compare the paper leaves open (Best-of-Q, 6).

Each has the same networks, inputs, batches and optimizer as IQL, and is called with the same settings.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from bestofq.core.errors import DataError
from bestofq.core.transitions import Floats, Ints, Transitions
from bestofq.learning.config import IQLConfig
from bestofq.learning.iql import IQL, train_iql
from bestofq.learning.networks import QNetwork
from experiments.siblings import siblings

TEMPERATURE = 0.1
"""λ of AWR: of advantages, which lie within [-1, 1]."""
CONSERVATISM = 0.1
"""α of CQL."""
N_STEPS = 3


def monte_carlo(data: Transitions, config: IQLConfig) -> IQL:
    """Q towards the discounted return of the episode itself: no bootstrapping."""
    return train_iql(replace(data, reward=returns(data, config.discount), terminal=np.ones_like(data.terminal)), config)


def shuffled_outcomes(data: Transitions, config: IQLConfig) -> IQL:
    """IQL where the episodes' outcomes are dealt out anew among them: a Q that knows nothing."""
    reward = data.reward.copy()
    reward[data.terminal] = np.random.default_rng(config.seed).permutation(reward[data.terminal])
    return train_iql(replace(data, reward=reward), config)


def reversed_outcomes(data: Transitions, config: IQLConfig) -> IQL:
    """IQL where failures are rewarded and successes are not: a Q that harms."""
    return train_iql(replace(data, reward=np.where(data.terminal, 1 - data.reward, 0).astype(np.float32)), config)


def n_step(data: Transitions, config: IQLConfig) -> IQL:
    """IQL, with V(s) taken `N_STEPS` steps ahead."""
    rows = np.arange(len(data))
    last = np.minimum(rows + N_STEPS - 1, data.ends)
    ahead = replace(
        data,
        reward=np.where(data.terminal[last], data.reward[last] * config.discount ** (last - rows), 0).astype(
            np.float32
        ),
        next_state=data.next_state[last],
        terminal=data.terminal[last],
    )
    return train_iql(ahead, config.model_copy(update={"discount": config.discount**N_STEPS}))


def cloning(data: Transitions, config: IQLConfig) -> IQL:
    """Filtered behaviour cloning: among a step's candidates, the one that a success took."""
    won, candidates = torch.from_numpy(returns(data, 1.0)), Candidates(data)

    def loss(iql: IQL, rows: Ints) -> Tensor:
        taken: Tensor = won[rows] * candidates.log_policy(iql, rows)
        return -taken.sum() / won[rows].sum().clamp(min=1)

    return _learned(data, config, loss)


def weighted(data: Transitions, config: IQLConfig) -> IQL:
    """AWR (Peng et al. 2019): among a step's candidates, the one that was taken, by exp((G - V) / λ)."""
    later, candidates = torch.from_numpy(returns(data, config.discount)), Candidates(data)

    def loss(iql: IQL, rows: Ints) -> Tensor:
        advantage = later[rows] - iql.v(candidates.vectors(data.state[rows]), candidates.vectors(data.task[rows]))
        iql._descend(advantage.square().mean(), iql.v, iql.adam_v)
        weight = (advantage.detach() / TEMPERATURE).exp().clamp(max=20)
        taken: Tensor = weight * candidates.log_policy(iql, rows)
        return -taken.mean()

    return _learned(data, config, loss)


def conservative(data: Transitions, config: IQLConfig) -> IQL:
    """CQL (Kumar et al. 2020): Q-learning over the next step's candidates, and a push down on those not taken."""
    reward, continues = torch.from_numpy(data.reward), torch.from_numpy(~data.terminal).float()
    candidates = Candidates(data)

    def loss(iql: IQL, rows: Ints) -> Tensor:
        if iql.step % config.target_update_every == 0:
            iql.q_target.load_state_dict(iql.q.state_dict())
        with torch.no_grad():
            after = candidates.scores(iql.q_target.eval(), np.minimum(rows + 1, len(data) - 1)).amax(1)
        scores = candidates.scores(iql.q, rows)
        error = reward[rows] + config.discount * continues[rows] * after - scores[:, 0]
        down: Tensor = scores.logsumexp(1) - scores[:, 0]
        return (error.square() + CONSERVATISM * down).mean()

    return _learned(data, config, loss)


def ranking(data: Transitions, config: IQLConfig) -> IQL:
    """Pairs of actions on one page of one task: log σ(Q of the success's - Q of the failure's)."""
    pairs, table = siblings(data), torch.from_numpy(data.vectors)
    if not len(pairs.better):
        raise DataError("no success and failure of one task differ in an action on one page: collect several passes")

    def loss(iql: IQL, rows: Ints) -> Tensor:
        drawn = rows % len(pairs.better)
        better, worse = (
            iql.q(*(table[part[of[drawn]]] for part in (data.state, data.action, data.task))) for of in pairs
        )
        return -logsigmoid(better - worse).mean()

    return _learned(data, config, loss)


# ---- what they share


def returns(data: Transitions, discount: float) -> Floats:
    """[T], the reward at the end of each row's episode, discounted by the steps to it."""
    end = data.ends
    return (data.reward[end] * discount ** (end - np.arange(len(data)))).astype(np.float32)


class Candidates:
    """Of each step the candidates' vectors, the one that was taken first."""

    def __init__(self, data: Transitions) -> None:
        """DataError where those that were not taken were left out."""
        if data.others is None:
            raise DataError("this learner reads the candidates that were not taken: set iql.others=true")
        self.data, self.table = data, torch.from_numpy(data.vectors)
        self.actions = np.concatenate([data.action[:, None], data.others], 1)  # [T, N]

    def vectors(self, rows: Ints) -> Tensor:
        return self.table[rows]

    def scores(self, q: QNetwork, rows: Ints) -> Tensor:
        """[B, N], -∞ where there is no candidate."""
        actions = self.actions[rows]
        state, task = self.vectors(self.data.state[rows]), self.vectors(self.data.task[rows])
        scores: Tensor = q(state[:, None], self.vectors(actions), task[:, None])
        return scores.masked_fill(torch.from_numpy(actions < 0), -torch.inf)

    def log_policy(self, iql: IQL, rows: Ints) -> Tensor:
        """[B], log of the softmax over Q, at the candidate that was taken."""
        return self.scores(iql.q, rows).log_softmax(1)[:, 0]


def _learned(data: Transitions, config: IQLConfig, loss: Callable[[IQL, Ints], Tensor]) -> IQL:
    """Q by `config.steps` steps down a loss of rows [B]."""
    iql = IQL(data.dim, config.model_copy(update={"precision": "fp32"}))
    iql.fit_scale(data)
    for step in range(config.steps):
        iql.begin_step()
        iql.q.train()
        rows = np.random.default_rng([config.seed, step]).integers(len(data), size=config.batch_size)
        iql._descend(loss(iql, rows), iql.q, iql.adam_q)
        iql.step += 1
    return iql
