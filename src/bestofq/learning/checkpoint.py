"""Checkpoints of Q and V: a directory with `checkpoint.json` and the safetensors file that it names.

The weights' file carries a hash in its name, which is compared when it is read, and is written first; the JSON is
replaced last, in one move. So a kill or a power cut at any moment leaves either the old checkpoint or the new one.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import CheckpointError
from bestofq.core.files import write_whole
from bestofq.core.frozen import FrozenModel, reason_of
from bestofq.core.gate import Gate
from bestofq.learning.config import CARD, EpisodeSet, IQLConfig, NetworkConfig
from bestofq.learning.iql import IQL
from bestofq.learning.memory import FILE, Memory
from bestofq.learning.networks import QNetwork, VNetwork, fold_projections
from bestofq.learning.value import ValueModel

Kind = Literal["training", "value"]
NETWORKS, OPTIMIZERS = ("q", "v", "q_target"), ("adam_q", "adam_v")  # as an IQL names them


class Card(FrozenModel):
    """What `checkpoint.json` holds: all that the weights do not tell."""

    format: Literal[1] = 1
    kind: Kind
    weights: str = Field(description="file beside this one")
    embed: EmbedSpec = Field(description="of the vectors Q and V read")
    train_n: int = Field(ge=1, description="candidates per step in the training episodes")
    step: int = Field(ge=0, description="gradient steps taken; with the seed, the state of every random generator")
    network: NetworkConfig = Field(description="shape of the stored weights; `project` None where it was folded away")
    config: IQLConfig
    data: str = Field(description="fingerprint of the transitions")
    episodes: EpisodeSet | None = Field(default=None, description="that the transitions come from; None: unknown")
    digest: str = Field(default="", description="16 hex digits over all other fields, as they are written")


def save_learner(
    directory: Path, iql: IQL, *, embed: EmbedSpec, train_n: int, episodes: EpisodeSet | None = None
) -> Path:
    """Write all that resuming needs: Q, V, the target and both optimizers. Written atomically; returns `directory`.
    CheckpointError if a number is NaN or inf; an older checkpoint then stays as it was."""
    known = {"embed": embed, "train_n": train_n, "episodes": episodes, "network": iql.config.network}
    return _write(directory, iql, "training", training_tensors(iql), known)


def load_learner(directory: Path, *, embed: EmbedSpec, device: str | None = None) -> IQL:
    """Load the learner as it was saved, for `train_iql(..., resume=...)`. Raises CheckpointError."""
    card = _fitting_card(directory, embed)
    iql = IQL(card.embed.dim, card.config if device is None else card.config.model_copy(update={"device": device}))
    with _fits(directory):
        put_training_tensors(iql, _read_tensors(directory, card))
    iql.step, iql.data = card.step, card.data
    return iql


def export_value(
    directory: Path, iql: IQL, *, embed: EmbedSpec, train_n: int, episodes: EpisodeSet | None = None
) -> Path:
    """Write Q and V alone, small: in float16, the projections folded into the first hidden layer (the same function).
    Raises CheckpointError if a number is NaN or inf."""
    q, v = fold_projections(iql.q), fold_projections(iql.v)
    tensors = {name: value.half() for name, value in _flatten_names({"q": q.state_dict(), "v": v.state_dict()}).items()}
    known = {"embed": embed, "train_n": train_n, "episodes": episodes, "network": q.config}
    return _write(directory, iql, "value", tensors, known)


def load_value(directory: Path, *, embed: EmbedSpec) -> ValueModel:
    """Load Q and V for inference, from either kind of checkpoint, in float32. `embed` is the spec of the vectors that
    they will read. Raises CheckpointError if they were trained on another."""
    card = _fitting_card(directory, embed)
    tensors = _read_tensors(directory, card)
    q, v = QNetwork(card.embed.dim, card.network), VNetwork(card.embed.dim, card.network)
    with _fits(directory):
        q.load_state_dict(_below("q", tensors))
        v.load_state_dict(_below("v", tensors))
    return ValueModel(
        q,
        v,
        embed=card.embed,
        train_n=card.train_n,
        checkpoint=Path(card.weights).stem,
        discount=card.config.discount,
        gate=Gate.load(directory, Path(card.weights).stem),
        memory=Memory.load(directory) if (directory / FILE).exists() else None,
    )


@contextmanager
def _fits(directory: Path) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, KeyError) as error:
        raise CheckpointError(f"The weights in {directory} do not fit the networks of its {CARD}: {error}") from error


def read_card(directory: Path) -> Card:
    """Return what a checkpoint says about itself. Raises CheckpointError if there is no valid one."""
    path = directory / CARD
    if not path.is_file():
        raise CheckpointError(f"There is no checkpoint in {directory}: {CARD} is missing. Make it by `bestofq train`.")
    content = path.read_bytes()
    try:
        card = Card.model_validate_json(content)
    except ValidationError as error:
        problem = f"{path} is not a checkpoint of this version ({reason_of(error)})"
        raise CheckpointError(f"{problem}: make it again by the command that made it") from error
    if card.digest != _card_digest(content):
        raise CheckpointError(
            f"{path} is not what was written. Put back a copy, or delete {directory} and make it again by the command "
            "that made it."
        )
    return card


def _fitting_card(directory: Path, embed: EmbedSpec) -> Card:
    card = read_card(directory)
    if embed != card.embed:
        pairs = [(name, getattr(card.embed, name), getattr(embed, name)) for name in EmbedSpec.model_fields]
        other = ", ".join(f"{name} {trained!r}, not {now!r}" for name, trained, now in pairs if trained != now)
        raise CheckpointError(f"Q and V in {directory} were trained on other embeddings: {other}.")
    return card


def training_tensors(iql: IQL) -> dict[str, Tensor]:
    """Q, V, the target and both optimizers, by name, on the CPU."""
    parts = {name: getattr(iql, name).state_dict() for name in NETWORKS}
    parts |= {name: _flatten_names(getattr(iql, name).state_dict()["state"]) for name in OPTIMIZERS}
    return {name: tensor.cpu() for name, tensor in _flatten_names(parts).items()}


def put_training_tensors(iql: IQL, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `training_tensors` gave. RuntimeError or KeyError if the networks differ."""
    for part in NETWORKS:
        getattr(iql, part).load_state_dict(_below(part, tensors))
    for part in OPTIMIZERS:
        adam, state = getattr(iql, part), defaultdict[int, dict[str, Tensor]](dict)
        for key, value in _below(part, tensors).items():
            index, name = key.split(".")
            state[int(index)][name] = value
        adam.load_state_dict({"state": state, "param_groups": adam.state_dict()["param_groups"]})


def _flatten_names(parts: Mapping[Any, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {f"{part}.{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()}


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(f"{prefix}."): value for name, value in tensors.items() if name.startswith(f"{prefix}.")}


def _read_tensors(directory: Path, card: Card) -> dict[str, Tensor]:
    path = directory / card.weights
    if not path.is_file():
        raise CheckpointError(f"The weights {path} that {CARD} names are missing.")
    content = path.read_bytes()
    if (digest := _digest(content)) != path.stem.rpartition("-")[2]:
        raise CheckpointError(
            f"The weights {path} are not what was written: their hash is {digest}. Put back a copy, or delete "
            f"{directory} and make it again by the command that made it."
        )
    try:
        return load(content)
    except SafetensorError as error:
        raise CheckpointError(f"The weights {path} cannot be read: {error}") from error


def _write(directory: Path, iql: IQL, kind: Kind, tensors: Mapping[str, Tensor], known: Mapping[str, Any]) -> Path:
    """`known`: of the card, what the learner does not tell."""
    if (dim := known["embed"].dim) != iql.dim:
        raise CheckpointError(f"The EmbedSpec says vectors of {dim} numbers, Q and V read {iql.dim}.")
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise CheckpointError(
                f"`{name}` holds NaN or inf after step {iql.step}, so nothing was saved: training has diverged. "
                f"Lower lr_q and lr_v (now {iql.config.lr_q:g}, {iql.config.lr_v:g})."
            )
    weights = save({name: tensor.cpu().contiguous() for name, tensor in tensors.items()})
    name = f"{kind}-{_digest(weights)}.safetensors"
    card = Card(kind=kind, weights=name, step=iql.step, config=iql.config, data=iql.data, **known)
    card = card.model_copy(update={"digest": _card_digest(card.model_dump_json())})
    for file_name, content in {name: weights, CARD: f"{card.model_dump_json(indent=2)}\n".encode()}.items():
        write_whole(directory / file_name, content)
    for old in directory.glob(f"{kind}-{'[0-9a-f]' * 16}.safetensors"):
        if old.name != name:
            old.unlink()
    return directory


def _card_digest(content: str | bytes) -> str:
    fields = {name: value for name, value in json.loads(content).items() if name != "digest"}
    return _digest(json.dumps(fields, sort_keys=True).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
