"""Q(s, a) and V(s): small MLPs over frozen embeddings of state, action and task (Best-of-Q, A.3 and B.2)."""

import copy
from collections.abc import Collection
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor, nn

from bestofq.learning.config import Input, NetworkConfig

LEAST_VARIANCE = 1e-4
"""Of an axis that is scaled to variance 1, as a share of the widest one's: what is below it is damped."""
ENOUGH = 10  # vectors a dimension, from which on whitening needs no shrinking


class EmbeddingMLP(nn.Module):
    """Linear projection of each embedding, concatenation, (Linear, ReLU, Dropout) per hidden layer, one scalar out.

    Where `config.scaling` says so each embedding is scaled first, by a linear map that `fit_scaling` sets and no
    gradient changes (not in the paper)."""

    def __init__(self, dim: int, inputs: tuple[Input, ...], without: Collection[Input], config: NetworkConfig) -> None:
        super().__init__()
        self.dim, self.config = dim, config.at(dim)
        self.seen = tuple(name not in without for name in inputs)
        project, hidden = config.projected_width(dim), config.widths(dim)
        width = self.width = project or dim
        scaled = self.config.scaling is not None
        self.scale = nn.ModuleList(nn.Linear(dim, dim) if scaled else nn.Identity() for _ in inputs)
        self.scale.requires_grad_(False)
        self.project = nn.ModuleList(nn.Linear(dim, width) if project else nn.Identity() for _ in inputs)
        self.body = nn.Sequential()
        for before, after in pairwise((len(inputs) * width, *hidden)):
            self.body.extend((nn.Linear(before, after), nn.ReLU(), nn.Dropout(config.dropout)))
        self.out = nn.Linear(hidden[-1], 1)

    def _value(self, *parts: Tensor) -> Tensor:
        projected = [self._project_embedding(index, part) for index, part in enumerate(parts)]
        joint = torch.broadcast_tensors(*projected)  # type: ignore[no-untyped-call]
        hidden = self.body(torch.cat(joint, dim=-1))
        with torch.autocast(hidden.device.type, enabled=False):
            # In float32: bfloat16 has 8 bits, and at a discount of 0.99 values one step apart differ by 1 %.
            value: Tensor = self.out(hidden.float())
        return value.squeeze(-1)

    def _project_embedding(self, index: int, vectors: Tensor) -> Tensor:
        """One embedding [..., D] as the first hidden layer reads it [..., width]; zeros where it is not seen."""
        with torch.autocast(vectors.device.type, enabled=False):  # scaling amplifies differences that bfloat16 has not
            scaled = self.scale[index](vectors if self.seen[index] else torch.zeros_like(vectors))
        projected: Tensor = self.project[index](scaled)
        return projected

    @torch.no_grad()
    def fit_scale(self, *parts: Tensor) -> None:
        """Set the scaling by what each embedding is in the training set [B, D]. Axes narrower than `LEAST_VARIANCE` of
        the widest are damped, an embedding that never varies becomes zeros. Whitening shrinks the covariance towards
        equal variances where there are few vectors: else it inflates the directions that they do not have."""
        for layer, vectors in zip(self.scale, parts, strict=True):
            if not isinstance(layer, nn.Linear):
                continue
            mean = vectors.double().mean(0)
            centred = vectors.double() - mean
            if self.config.scaling == "whiten":
                covariance = centred.T @ centred / len(centred)
                variances, axes = torch.linalg.eigh(covariance)  # [D], [D, D] in columns
                if len(centred) < ENOUGH * self.dim:
                    variances = _shrink(variances, centred)
            else:
                variances, axes = centred.square().mean(0), torch.eye(self.dim, dtype=mean.dtype, device=mean.device)
            floor = LEAST_VARIANCE * variances.max()
            matrix = axes.T / (variances.clamp(min=0) + floor).sqrt()[:, None] if floor > 0 else torch.zeros_like(axes)
            layer.weight.copy_(matrix)
            layer.bias.copy_(-matrix @ mean)


def _shrink(variances: Tensor, centred: Tensor) -> Tensor:
    """Return the eigenvalues [D] of the covariance of [B, D], shrunk towards their mean (Ledoit and Wolf 2004)."""
    norm, mean = variances.square().sum(), variances.mean()
    noise = (centred.square().sum(1).square().mean() - norm) / len(centred)
    distance = norm - len(variances) * mean**2
    share = (noise / distance).clamp(0, 1) if distance > 0 else torch.ones_like(mean)
    return (1 - share) * variances + share * mean


class QNetwork(EmbeddingMLP):
    """Q_θ(s, a) of a task."""

    def __init__(self, dim: int, config: NetworkConfig | None = None) -> None:
        config = config or NetworkConfig()
        super().__init__(dim, ("state", "action", "task"), config.q_without, config)

    def forward(self, state: Tensor, action: Tensor, task: Tensor) -> Tensor:
        """[..., D] three times -> [...]. Leading axes broadcast after the projection: N candidates of one state are
        [B, 1, D], [B, N, D], [B, 1, D], and the state is projected once."""
        return self._value(state, action, task)


class VNetwork(EmbeddingMLP):
    """V_ψ(s) of a task."""

    def __init__(self, dim: int, config: NetworkConfig | None = None) -> None:
        config = config or NetworkConfig()
        super().__init__(dim, ("state", "task"), config.v_without, config)

    def forward(self, state: Tensor, task: Tensor) -> Tensor:
        """[..., D] twice -> [...]."""
        return self._value(state, task)


Network = TypeVar("Network", QNetwork, VNetwork)


def parameter_counts(dim: int, config: NetworkConfig) -> tuple[int, int]:
    """Of Q and of V for vectors of `dim` numbers."""
    with torch.device("meta"):
        networks = QNetwork(dim, config), VNetwork(dim, config)
    q, v = (sum(p.numel() for p in network.parameters()) for network in networks)
    return q, v


@torch.no_grad()
def fold_projections(network: Network) -> Network:
    """The same function without scaling and projections: no activation stands between them and the first hidden layer,
    so their matrices are multiplied into one, in float64."""
    if network.config.project is None and network.config.scaling is None:
        return copy.deepcopy(network)
    first = network.body[0]
    assert isinstance(first, nn.Linear)
    blocks, bias = list(first.weight.double().chunk(len(network.project), dim=1)), first.bias.double()
    for maps in (network.project, network.scale):
        for index, layer in enumerate(maps):
            if isinstance(layer, nn.Linear):
                bias = bias + blocks[index] @ layer.bias.double()
                blocks[index] = blocks[index] @ layer.weight.double()
    result = type(network)(network.dim, network.config.model_copy(update={"project": None, "scaling": None}))
    before = ("project.", "scale.")
    weights = {name: value for name, value in network.state_dict().items() if not name.startswith(before)}
    result.load_state_dict(weights | {"body.0.weight": torch.cat(blocks, 1), "body.0.bias": bias})
    return result.to(first.weight.device).train(network.training)
