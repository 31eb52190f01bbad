"""Token by token with a key-value cache: room for what is still to come, and attention that reads the keys in order.

The fused kernels are made for many queries. For the few of a decoding step a CPU's kernel takes twice as long as two
plain products over keys in the right order.
"""

from collections.abc import Sequence
from math import inf
from typing import Any

import torch
import transformers  # its attention takes a second to import: it is named where it is used
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer
from transformers.modeling_outputs import CausalLMOutputWithPast

from bestofq.core.errors import ConfigError

# A model's input and output of that meaning: transformers 5.24 renamed it, and the old name warns.
CACHE = "cache" if "cache" in CausalLMOutputWithPast.__dataclass_fields__ else "past_key_values"
NAME = "bestofq_decoding"


def attend_in_order(model: Any) -> None:
    """Let a model of transformers that has "sdpa" decode by `_attend`; the rest is computed as before. One without it,
    such as Gemma 2 with its soft caps, keeps its own attention."""
    if _attention(model) != "sdpa":
        return
    transformers.AttentionInterface.register(NAME, _attend)
    transformers.AttentionMaskInterface.register(NAME, transformers.masking_utils.sdpa_mask)
    model.set_attn_implementation(NAME)


def _attention(model: Any) -> str:
    name: str = model.config.get_text_config()._attn_implementation
    return name


@torch.inference_mode()
def window_of(model: Any, ids: Tensor) -> float:
    """Return the most tokens of prompt and reply for which a mask alone separates the branches of a row.

    It is infinite if all layers see every earlier token, else the smallest window. It is 0 if a layer keeps a state, as
    recurrent ones do, or reads no such mask (ALiBi, no "sdpa"). The cache of any prompt shows it, such as `ids` [1, 1].
    ConfigError if there is no cache.
    """
    cache: Any = getattr(model(input_ids=ids, use_cache=True), CACHE, None)
    if not hasattr(cache, "layers"):
        raise ConfigError(
            f"{type(model).__name__} draws no replies here: what it has read, such as a recurrent state, is in no "
            "cache that several draws can continue from; take a model of another class, or serve this one and give its "
            "--base-url"
        )
    if _attention(model) == "eager" or getattr(model.config, "alibi", False):
        return 0
    plain = {DynamicLayer, DynamicSlidingWindowLayer}
    return min(getattr(layer, "sliding_window", inf) if type(layer) in plain else 0 for layer in cache.layers)


def with_room(cache: Any, room: int) -> Any:
    """Return a prompt's cache with room for `room` tokens of branches. Each branch stays within `window_of`."""
    cache.layers = [_RoomyLayer(layer, room) for layer in cache.layers]
    return cache


class _RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """A layer's keys and values [B, H, T, D] with room to grow. In memory the keys are [B, H, D, T]."""

    def __init__(self, layer: DynamicLayer, room: int) -> None:
        super().__init__()
        self.lazy_initialization(layer.keys, layer.values)
        self._length = layer.keys.shape[-2]
        self._keys = functional.pad(layer.keys.transpose(2, 3), (0, room))
        self._values = functional.pad(layer.values, (0, 0, 0, room))
        self._view()

    def _view(self) -> None:
        self.keys = self._keys[..., : self._length].transpose(2, 3)
        self.values = self._values[:, :, : self._length]

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        start, self._length = self._length, self._length + key_states.shape[-2]
        self._view()
        self.keys[:, :, start:] = key_states
        self.values[:, :, start:] = value_states
        return self.keys, self.values

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self._keys, self._values = self._keys[beam_idx], self._values[beam_idx]
        self._view()

    batch_select_indices = reorder_cache


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attention of queries [B, heads, Q, D] to keys [B, groups, T, D], values [B, groups, T, E] → [B, Q, heads, E]."""
    batch, heads, count, size = query.shape
    if count == key.shape[2] or others.get("position_bias") is not None:
        attend = transformers.integrations.sdpa_attention.sdpa_attention_forward
        return attend(module, query, key, value, attention_mask, scaling=scaling, **others)  # type: ignore[no-any-return]
    grouped = query.reshape(batch, key.shape[1], -1, size)
    scores = (grouped @ key.transpose(2, 3)).view(batch, heads, count, -1)
    scores = scores * (size**-0.5 if scaling is None else scaling)
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, float("-inf"))
    weights = scores.softmax(-1, dtype=torch.float32).to(value.dtype).view(*grouped.shape[:3], -1)
    return (weights @ value).view(batch, heads, count, -1).transpose(1, 2).contiguous(), None


def pad_ids(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """ids [B, T] padded on the right, where a causal model cannot see it, and where they are real [B, T]."""
    ids = pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])[:, None]
    return ids.to(device), (torch.arange(ids.shape[1]) < lengths).to(device)
