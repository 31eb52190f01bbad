"""Estimators of a ranked agent's success from logged choices that were tried beside `reports/off_policy.py`'s.

Each gives a `Quantity`: numbers a task, added up over tasks, so that intervals and paired differences are clustered.
"""

import numpy as np

from bestofq.core.logged import LoggedChoices
from bestofq.reports.off_policy import by_task, step_numbers, sum_by_task
from bestofq.reports.stats import UNIT, Doubles, Quantity, share

RIDGE = 1e-3
"""Of fitted Q evaluation's equations, per step and on standardized features: keeps rare candidates from deciding."""


def ratios(log: LoggedChoices, pi: Doubles) -> Doubles:
    """π(a_t | s_t) / μ(a_t | s_t) of what was taken [T] (Precup, Sutton and Singh 2000)."""
    rows = np.arange(len(log.chosen))
    return np.asarray(pi[rows, log.chosen] / log.propensity[rows, log.chosen])


def weights(log: LoggedChoices, pi: Doubles) -> Doubles:
    """ρ_{0:t} [T]: the product of an episode's ratios up to and with each step (Precup, Sutton and Singh 2000)."""
    product = ratios(log, pi)
    for t in range(1, len(product)):
        if log.episode[t] == log.episode[t - 1]:
            product[t] *= product[t - 1]
    return product


def effective_episodes(log: LoggedChoices, pi: Doubles) -> float:
    """(Σ w)² / Σ w² of whole episodes' weights: how many of the target's own episodes they are worth (Kong 1992)."""
    whole = weights(log, pi)[log.last]
    return float(whole.sum() ** 2 / (whole**2).sum()) if whole.any() else 0.0


def importance_sampling(log: LoggedChoices, pi: Doubles) -> Quantity:
    """(1/E) Σ_i ρ_i r_i (Precup, Sutton and Singh 2000): unbiased, of high variance. With the reward at the end alone
    per-decision importance sampling is the same."""
    won = weights(log, pi)[log.last] * log.success
    return Quantity(
        by_task(log, np.stack([won, np.ones(len(won))], 1)), statistic=lambda s: share(s[..., 0], s[..., 1])
    )


def weighted_importance_sampling(log: LoggedChoices, pi: Doubles) -> Quantity:
    """Σ_i ρ_i r_i / Σ_i ρ_i (Precup, Sutton and Singh 2000): within [0, 1], of less variance, biased by few episodes.
    NaN where no episode chose as the target does."""
    whole = weights(log, pi)[log.last]
    return Quantity(
        by_task(log, np.stack([whole * log.success, whole], 1)), UNIT, lambda s: share(s[..., 0], s[..., 1])
    )


def per_decision_wis(log: LoggedChoices, pi: Doubles) -> Quantity:
    """Σ_t Σ_i ρ^i_{0:t} r^i_t / Σ_i ρ^i_{0:t}: consistent weighted per-decision importance sampling (Thomas 2015); an
    episode that has ended keeps its last weight and has no more reward."""
    steps = step_numbers(log)
    length = int(steps.max()) + 1
    weight, reward = _padded(log, weights(log, pi), length), np.zeros((len(log.task), length))
    ends = steps[log.last]
    reward[np.arange(len(ends)), ends] = log.success
    counts = np.concatenate([weight * reward, weight], axis=1)
    return Quantity(by_task(log, counts), statistic=lambda s: _by_step(s, length))


def features(log: LoggedChoices) -> Doubles:
    """φ(s, a) [T, N, F] of fitted Q evaluation: what Q says, how far it lies below the best, whether it is the
    proposer's first or the only one, V(s); standardized."""
    there = np.isfinite(log.q)
    q = np.where(there, log.q, 0.0)
    best = np.where(there, log.q, -np.inf).max(axis=1)
    only = there.sum(axis=1) == 1
    columns = [
        q,
        q - best[:, None],
        q == best[:, None],
        np.arange(q.shape[1])[None] == 0,
        only[:, None],
        log.value[:, None],
        step_numbers(log)[:, None],
    ]
    table = np.stack([np.broadcast_to(np.asarray(column, np.float64), q.shape) for column in columns], axis=-1)
    flat = table[there]
    scale = flat.std(axis=0)
    table = (table - flat.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    return np.concatenate([np.ones((*q.shape, 1)), table], axis=-1) * there[..., None]


def _equations(log: LoggedChoices, pi: Doubles) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """φ(s_t, a_t) and φ(s_t, π) [T, F], φ(s_{t+1}, π), 0 at the end, and r_t [T]."""
    phi = features(log)
    taken = phi[np.arange(len(phi)), log.chosen]
    target = (pi[..., None] * phi).sum(axis=1)
    after = np.where(log.last[:, None], 0.0, np.roll(target, -1, axis=0))
    return taken, target, after, np.where(log.last, log.success[log.episode], False).astype(np.float64)


def fitted_q_evaluation(log: LoggedChoices, pi: Doubles) -> Quantity:
    """E[Q^π(s_0, π)], Q^π linear in `features` and the fixed point of r + Q^π(s', π) (Le, Voloshin and Yue 2019; as
    equations LSTDQ, Lagoudakis and Parr 2003). No weights, so little variance; biased by what features leave out."""
    taken, target, after, reward = _equations(log, pi)
    size = taken.shape[1]
    begins = np.roll(log.last, 1)
    products = taken[:, :, None] * (taken - after)[:, None, :]
    rows = np.concatenate(
        [
            products.reshape(len(taken), -1),
            taken * reward[:, None],
            target * begins[:, None],
            begins[:, None],
            np.ones((len(taken), 1)),
        ],
        axis=1,
    )
    return Quantity(sum_by_task(log, rows), statistic=lambda s: _solved(s, size))


def _solved(sums: Doubles, size: int) -> Doubles:
    """[B] of `fitted_q_evaluation` counts added up."""
    matrix = sums[..., : size * size].reshape(-1, size, size)
    vector, start, number, steps = np.split(sums[..., size * size :], [size, 2 * size, 2 * size + 1], axis=-1)
    weights = np.linalg.solve(matrix + RIDGE * steps[..., None] * np.eye(size), vector[..., None])[..., 0]
    return share((start * weights).sum(axis=-1), number[..., 0])


def doubly_robust(log: LoggedChoices, pi: Doubles, folds: int = 5, *, weighted: bool = False) -> Quantity:
    """(1/E) Σ_i [ V̂(s_0) + Σ_t ρ_{0:t} (r_t + V̂(s_{t+1}) − Q̂(s_t, a_t)) ] (Jiang and Li 2016): unbiased
    whatever Q̂ is, and the better Q̂, the less its variance. Q̂ is `fitted_q_evaluation`'s of the other tasks' folds.

    `weighted`: ρ_{0:t} divided by its mean over episodes at each step (Thomas and Brunskill 2016), episodes that have
    ended keeping their last weight.
    """
    taken, target, after, reward = _equations(log, pi)
    number = {task: at for at, task in enumerate(dict.fromkeys(log.task))}
    fold = np.array([number[task] % folds for task in log.task])[log.episode]
    q, v, following = np.zeros(len(taken)), np.zeros(len(taken)), np.zeros(len(taken))
    for one in range(folds):
        here, rest = fold == one, fold != one
        matrix = taken[rest].T @ (taken - after)[rest] + RIDGE * rest.sum() * np.eye(taken.shape[1])
        w = np.linalg.solve(matrix, taken[rest].T @ reward[rest])
        q[here], v[here], following[here] = taken[here] @ w, target[here] @ w, after[here] @ w
    begins = np.roll(log.last, 1)
    errors = reward + following - q
    rho = weights(log, pi)
    if not weighted:
        rows = np.stack([v * begins + rho * errors, begins], axis=1)
        return Quantity(sum_by_task(log, rows), statistic=lambda s: share(s[..., 0], s[..., 1]))
    length = int(step_numbers(log).max()) + 1
    weight = _padded(log, rho, length)
    error = np.zeros((len(log.task), length))
    error[log.episode, step_numbers(log)] = errors
    counts = np.concatenate([weight * error, weight, v[begins][:, None], np.ones((len(log.task), 1))], axis=1)
    return Quantity(
        by_task(log, counts),
        statistic=lambda s: _by_step(s[..., :-2], length) + share(s[..., -2], s[..., -1]),
    )


def _padded(log: LoggedChoices, values: Doubles, length: int) -> Doubles:
    """[T] as [E, length]; an episode's last value goes on after its end."""
    ends = np.flatnonzero(log.last)
    begins = np.append(0, ends[:-1] + 1)
    return np.asarray(values[np.minimum(begins[:, None] + np.arange(length)[None], ends[:, None])])


def _by_step(sums: Doubles, length: int) -> Doubles:
    """Σ_t of the quotients of [B, 2 · length]; steps without weight add nothing."""
    return np.asarray(np.nansum(share(sums[..., :length], sums[..., length:]), axis=-1))
