"""Implicit Q-learning over stored transitions (Best-of-Q, 3.2, A.4 and B.1; Kostrikov et al. 2021)."""

import copy
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bestofq.core.errors import CheckpointError
from bestofq.core.transitions import Transitions
from bestofq.learning.batches import Batch, Batches, fingerprint
from bestofq.learning.config import IQLConfig
from bestofq.learning.distributed import choose_device, fast_bfloat16
from bestofq.learning.networks import EmbeddingMLP, QNetwork, VNetwork
from bestofq.learning.tracking import Log, discard_log

UNCAPTURED_STEPS = 3
MEANS = ("v_loss", "q_loss", "v_mean", "q_mean")  # of a step, in the order in which `IQL.update` gives them


def expectile_loss(diff: Tensor, expectile: float) -> Tensor:
    """mean of L_2^τ(u) = |τ - 1(u < 0)| u², with u = `diff` [B] = Q_target(s, a) - V(s) (Eq. 3)."""
    return torch.where(diff < 0, 1 - expectile, expectile).mul(diff.square()).mean()


def td_loss(q: Tensor, next_v: Tensor, reward: Tensor, continues: Tensor, discount: float) -> Tensor:
    """mean of (r + γ V(s') - Q(s, a))² (Eq. 4), all [B]. A terminal step (`continues` 0) has no V(s')."""
    return (reward + discount * continues * next_v - q).square().mean()


class IQL:
    """Q, V and Q's target in training: all that a checkpoint holds. After the start only batches and dropout masks are
    random, both by (seed, step). So a resumed run equals one that never stopped, bit for bit."""

    def __init__(self, dim: int, config: IQLConfig) -> None:
        config = config.at(dim)
        self.dim, self.config, self.step, self.data = dim, config, 0, ""
        self.device = choose_device(config.device)
        bf16 = config.precision == "bf16" or (config.precision == "auto" and fast_bfloat16(self.device))
        self.dtype = torch.bfloat16 if bf16 else torch.float32
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self.q = QNetwork(dim, config.network).to(self.device)
            self.v = VNetwork(dim, config.network).to(self.device)
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        # Autocast would cast a float32 target's weights at every step; they change at every hundredth.
        self.q_target.project.to(self.dtype)
        self.q_target.body.to(self.dtype)
        self.adam_q = self._adam(self.q, config.lr_q)
        self.adam_v = self._adam(self.v, config.lr_v)
        self._all: Batches | None = None
        self._goals: Tensor | None = None  # [T]: Q_target(s, a) of all transitions
        self._copied = False  # whether the target is another than that of `_goals`

    def value_once(self, batches: Batches) -> None:
        """Have each copy of Q's target value each transition once, if more are drawn until the next copy."""
        if batches.size < self.config.batch_size * self.config.target_update_every:
            self._all, self._goals, self._copied = batches, torch.zeros(batches.size, device=self.device), True

    def fit_scale(self, data: Transitions) -> None:
        """Set `network.scaling` by the distinct states, actions and tasks of the training set."""
        if self.config.network.scaling is None:
            return
        parts = [torch.from_numpy(data.vectors[np.unique(rows)]) for rows in (data.state, data.action, data.task)]
        state, action, task = (part.to(self.device) for part in parts)
        self.q.fit_scale(state, action, task)
        self.v.fit_scale(state, task)

    def update(self, batch: Batch) -> Tensor:
        """One step of V (Eq. 3), then one of Q towards the new V (Eq. 4); returns [v_loss, q_loss, mean V, mean Q]."""
        self.begin_step()
        means = self.descend(batch)
        self.step += 1
        return means

    def descend(self, batch: Batch) -> Tensor:
        """The part of `update` that is the same work at every step, all of it on the device."""
        v_loss, v = self._v_loss(batch)
        self._descend(v_loss, self.v, self.adam_v)
        q_loss, q = self._q_loss(batch)
        self._descend(q_loss, self.q, self.adam_q)
        return torch.stack([v_loss, q_loss, v, q]).detach()

    def _v_loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        with self._autocast():
            v = self.v(batch.state, batch.task)
            if self._goals is None:
                goal = _without_gradient(self.q_target, batch.state, batch.action, batch.task)
            else:
                goal = self._goals[batch.drawn]
            return expectile_loss(goal - v, self.config.expectile), v.mean()

    def _q_loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        with self._autocast():
            q = self.q(batch.state, batch.action, batch.task)
            next_v = _without_gradient(self.v, batch.next_state, batch.task)
            return td_loss(q, next_v, batch.reward, batch.continues, self.config.discount), q.mean()

    def begin_step(self) -> None:
        """Set the target, the learning rates (cosine, from `lr` at step 0 to 0 at `steps`) and the dropout masks."""
        if self.step % self.config.target_update_every == 0:
            self.q_target.load_state_dict(self.q.state_dict())
            self._copied = True
        if self._copied and self._all is not None and self._goals is not None:
            with self._autocast():
                for start in range(0, self._all.size, self.config.batch_size):
                    some = self._all.at(torch.arange(start, min(start + self.config.batch_size, self._all.size)))
                    self._goals[some.drawn] = _without_gradient(self.q_target, some.state, some.action, some.task)
            self._copied = False
        decay = 0.5 * (1 + math.cos(math.pi * self.step / self.config.steps))
        for adam, lr in ((self.adam_q, self.config.lr_q), (self.adam_v, self.config.lr_v)):
            rate = adam.param_groups[0]["lr"]
            adam.param_groups[0]["lr"] = rate.fill_(lr * decay) if isinstance(rate, Tensor) else lr * decay
        if self.config.network.dropout:
            seed = int(np.random.SeedSequence([self.config.seed, self.step]).generate_state(1)[0])
            (torch.cuda.manual_seed_all if self.device.type == "cuda" else torch.default_generator.manual_seed)(seed)

    def _adam(self, network: EmbeddingMLP, lr: float) -> torch.optim.Adam:
        gpu = self.device.type == "cuda"
        rate = torch.tensor(lr, device=self.device) if gpu else lr  # a number that a captured step reads anew
        decay = self.config.weight_decay
        return torch.optim.Adam(network.parameters(), rate, weight_decay=decay, fused=True, capturable=gpu)

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.dtype == torch.bfloat16)

    def _descend(self, loss: Tensor, network: EmbeddingMLP, adam: torch.optim.Adam) -> None:
        adam.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), self.config.clip_norm)
        adam.step()


@torch.no_grad()
def _without_gradient(network: EmbeddingMLP, *inputs: Tensor) -> Tensor:
    values: Tensor = network.eval()(*inputs)
    network.train()
    return values


def train_iql(
    data: Transitions,
    config: IQLConfig | None = None,
    *,
    resume: IQL | None = None,
    log: Log = discard_log,
    on_step: Callable[[IQL], Any] | None = None,
    save: Callable[[IQL], Any] | None = None,
) -> IQL:
    """Train Q and V on `data`, up to `config.steps` steps.

    Args:
        resume: what `save` kept of the same data and settings. The result is then bit for bit that of a training which
            never stopped.
        log: gets the means since the row before, the rate of Q and the seconds of this process.
        on_step: called after each step.
        save: called every `config.checkpoint_seconds`, and not after the last step.

    Raises: DataError, CheckpointError.
    """
    iql = resume or IQL(data.dim, config or IQLConfig())
    if config is not None:
        iql.config = config.at(iql.dim)
    _claim(iql, data)
    gpus = [iql.device] if iql.device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        size, seed = iql.config.batch_size, iql.config.seed
        dtype = iql.dtype if iql.config.network.scaling is None else torch.float32
        batches = Batches(data, batch_size=size, seed=seed, device=iql.device, dtype=dtype)
        if resume is None:
            iql.fit_scale(data)
        iql.value_once(batches)
        update = choose_update(iql, batches)
        sums, since, began = torch.zeros(4, device=iql.device), iql.step, time.perf_counter()
        saved = began
        while iql.step < iql.config.steps:
            sums += update()
            if iql.step == iql.config.steps or iql.step % iql.config.log_every == 0:
                means = dict(zip(MEANS, (sums / (iql.step - since)).tolist(), strict=True))
                rate, seconds = float(iql.adam_q.param_groups[0]["lr"]), time.perf_counter() - began
                log(iql.step, {**means, "lr_q": rate, "seconds": seconds})
                sums, since = torch.zeros_like(sums), iql.step
            if on_step is not None:
                on_step(iql)
            due = iql.step < iql.config.steps and time.perf_counter() - saved >= iql.config.checkpoint_seconds
            if due and save is not None:
                save(iql)
                saved = time.perf_counter()
    return iql


def choose_update(iql: IQL, batches: Batches) -> Callable[[], Tensor]:
    """Return the fastest way to make a step with the next batch. What it returns is valid until its next call.

    On a GPU it is a CUDA graph. The networks are small, and the GPU would otherwise wait
    for Python to launch each kernel. The first steps choose kernels and make Adam's state, so they are not captured.
    """
    if iql.device.type != "cuda":
        return lambda: iql.update(batches[iql.step])
    drawn = torch.zeros(batches.batch_size, dtype=torch.int64, device=iql.device)
    graph, apart = torch.cuda.CUDAGraph(), torch.cuda.Stream(iql.device)  # type: ignore[no-untyped-call]
    means: Tensor | None = None
    steps = 0

    def update() -> Tensor:
        nonlocal means, steps
        drawn.copy_(batches.draw(iql.step))
        iql.begin_step()
        if steps < UNCAPTURED_STEPS:
            apart.wait_stream(torch.cuda.current_stream(iql.device))
            with torch.cuda.stream(apart):
                means_now = iql.descend(batches.at(drawn))
            torch.cuda.current_stream(iql.device).wait_stream(apart)
        else:
            if means is None:
                with torch.cuda.device(iql.device), torch.cuda.graph(graph):
                    means = iql.descend(batches.at(drawn))
            graph.replay()
            means_now = means
        steps += 1
        iql.step += 1
        return means_now

    return update


def _claim(iql: IQL, data: Transitions) -> None:
    """Tie a learner to its data, and refuse other data than it began with."""
    data_now = fingerprint(data)
    if iql.data not in ("", data_now):
        raise CheckpointError(
            f"The checkpoint was trained on data {iql.data}, this is {data_now}: resume with the same data."
        )
    iql.data = data_now
