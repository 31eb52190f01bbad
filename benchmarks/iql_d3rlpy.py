"""d3rlpy's IQL with the networks of Best-of-Q B.2; started by `iql.py` under an interpreter that has d3rlpy 2.8."""

import sys
import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from d3rlpy.algos import IQLConfig
from d3rlpy.dataset import EpisodeGenerator, InfiniteBuffer, ReplayBuffer
from d3rlpy.models.encoders import EncoderFactory
from d3rlpy.optimizers import AdamFactory
from d3rlpy.torch_utility import TorchMiniBatch
from torch import nn


class Encoder(nn.Module):
    """Observation [B, 2 D] (state, task) and perhaps action [B, D], each projected to 1024, then the hidden layers."""

    def __init__(self, dim: int, parts: int) -> None:
        super().__init__()
        self.dim = dim
        self.project = nn.ModuleList(nn.Linear(dim, 1024) for _ in range(parts))
        widths = (1024 * parts, 1024, 1024, 512, 256, 128, 64)
        self.body = nn.Sequential()
        for before, after in pairwise(widths):
            self.body.extend((nn.Linear(before, after), nn.ReLU(), nn.Dropout(0.1)))

    def forward(self, observation: torch.Tensor, action: torch.Tensor | None = None) -> torch.Tensor:
        parts = [*observation.split(self.dim, dim=-1), *(() if action is None else (action,))]
        return self.body(torch.cat([project(x) for project, x in zip(self.project, parts, strict=True)], dim=-1))


@dataclass()
class B2Factory(EncoderFactory):
    dim: int = 256

    def create(self, observation_shape: object) -> Encoder:
        return Encoder(self.dim, 2)

    def create_with_action(self, observation_shape: object, action_size: int, discrete_action: bool = False) -> Encoder:
        return Encoder(self.dim, 3)

    @staticmethod
    def get_type() -> str:
        return "b2"


def main(dim: int, threads: int) -> None:
    torch.set_num_threads(threads)
    device = "cuda:0" if torch.cuda.is_available() else "cpu:0"
    rng = np.random.default_rng(0)
    episodes, length = 200, 10
    ends = np.zeros(episodes * length, np.float32)
    ends[length - 1 :: length] = 1
    made = EpisodeGenerator(
        observations=rng.standard_normal((len(ends), 2 * dim)).astype(np.float32),
        actions=rng.standard_normal((len(ends), dim)).astype(np.float32),
        rewards=ends * (rng.random(len(ends)) < 0.5),
        terminals=ends,
    )()
    buffer = ReplayBuffer(InfiniteBuffer(), episodes=made)
    adam = AdamFactory(weight_decay=1e-4, clip_grad_norm=1.0)
    factory = B2Factory(dim)
    algo = IQLConfig(
        batch_size=128,
        n_critics=1,
        critic_optim_factory=adam,
        critic_encoder_factory=factory,
        value_encoder_factory=factory,
    ).create(device=device)
    algo.build_with_dataset(buffer)
    impl = algo.impl
    assert impl is not None
    impl.modules.set_train()

    for line in sys.stdin:
        began = time.perf_counter()
        for _ in range(int(line)):
            sampled = buffer.sample_transition_batch(128)
            batch = TorchMiniBatch.from_batch(sampled, gamma=0.99, compute_returns_to_go=False, device=device)
            impl.update_critic(batch)
            impl.update_critic_target()
        sys.stdout.write(f"seconds {time.perf_counter() - began}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
