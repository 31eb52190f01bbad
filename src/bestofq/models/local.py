"""Any causal language model in a transformers directory, the pocket model among them: batched generation.

A prompt's key-value cache is computed once for all its draws. The draws are branches of one row: at each step a row
feeds one token a branch, and a mask lets each branch see the prompt and its own tokens only, so that the cache of the
prompt is neither copied nor read more than once.
"""

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from bestofq.core.errors import ConfigError, SetupError
from bestofq.core.language import Generation, Reply, Request
from bestofq.models.batching import MicroBatcher
from bestofq.models.beams import beam_search
from bestofq.models.decoding import attend_in_order, with_room
from bestofq.models.pooling import padded
from bestofq.models.shipped import POCKET

# On a CPU, oneDNN and PyTorch's layer over it keep a kernel for each of the last 1,024 shapes: hundreds of megabytes
# where hardly a batch has the shape of another. A few serve as well; read when the first kernel is made.
for _cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_cache, "16")

Precision = Literal["auto", "float32", "bfloat16"]
TOKENS = 64  # of a reply, at most, where a request does not say
Drawn = tuple[Generation, Tensor | None]
"""Replies and, where asked for, what the head read when it drew each token of the first [T, D]."""


class LocalModel:
    """A frozen causal language model on one device."""

    def __init__(self, model: Any, tokenizer: Any, *, name: str, revision: str, max_batch: int = 64) -> None:
        self.model = model.eval().requires_grad_(False)
        self.tokenizer = tokenizer
        self.name = name
        self.revision = revision
        self.device: torch.device = next(model.parameters()).device
        self.max_batch = max_batch
        self._threads = torch.get_num_threads() if self.device.type == "cpu" else 1
        self._batcher: MicroBatcher[Request, Generation] = MicroBatcher(
            self._on_its_share, limit=max_batch, lanes=min(2, self._threads)
        )
        ends = model.generation_config.eos_token_id if model.generation_config else tokenizer.eos_token_id
        self._ends = torch.tensor([ends] if isinstance(ends, int) else list(ends or [tokenizer.eos_token_id]))

    @classmethod
    def load(cls, path: str | Path = POCKET, *, device: str = "auto", precision: Precision = "auto") -> Self:
        """Load a transformers directory or hub name. SetupError when it cannot be found."""
        advice = "give --model a transformers directory, a hub's owner/name, or with it the --base-url of an endpoint"
        if len(Path(path).parts) == 1 and not Path(path).is_dir():  # the hub's own are all owner/name
            raise SetupError(f"no language model at {path}: {advice}")
        target, dtype = placed(device, precision)
        disable_progress_bar()  # of reading weights: they are ours to announce
        try:
            model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation="sdpa")
            tokenizer = AutoTokenizer.from_pretrained(path)
        except (OSError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise SetupError(f"no language model at {path}: {advice} ({reason})") from error
        attend_in_order(model)
        revision = getattr(model.config, "_commit_hash", None) or weights_hash(Path(path))
        return cls(model.to(target), tokenizer, name=Path(path).name, revision=revision)

    @property
    def dim(self) -> int:
        """Numbers in a hidden state."""
        return int(self.model.config.get_text_config().hidden_size)

    @cached_property
    def _breaks(self) -> Tensor:
        """Tokens that hold a line break."""
        texts = self.tokenizer.batch_decode([[token] for token in range(len(self.tokenizer))])
        return torch.tensor([token for token, text in enumerate(texts) if "\n" in text], dtype=torch.long)

    async def generate(self, request: Request) -> Generation:
        """Replies to one request, batched with the others in flight. ConfigError where it holds pictures."""
        if any(message.screenshots for message in request.messages):
            raise ConfigError(f"{self.name} reads no pictures: ask it in texts alone, or a model behind --base-url")
        started = time.perf_counter()
        generation = await self._batcher.submit(request)
        return replace(generation, seconds=time.perf_counter() - started)

    def _on_its_share(self, requests: Sequence[Request]) -> list[Generation]:
        """Two batches at once, each on half of a CPU's cores, take less than one after the other on all of them: much
        of a small model's step is no matrix product."""
        if self._threads == 1:
            return self.generate_batch(requests)
        torch.set_num_threads(self._threads // self._batcher.busy)  # of this Python thread's work
        try:
            return self.generate_batch(requests)
        finally:
            torch.set_num_threads(self._threads)

    def encode(self, prompt: str) -> list[int]:
        """Token ids of a prompt: by the chat template where the model has one, else as plain text after `start`."""
        if self.tokenizer.chat_template:
            messages = [{"role": "user", "content": prompt}]
            ids = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
            return list(ids)
        return [*self.start, *self.encode_plain(prompt)]

    @property
    def start(self) -> list[int]:
        """The token that begins a text, or none where the tokenizer has no such token."""
        return [] if self.tokenizer.bos_token_id is None else [self.tokenizer.bos_token_id]

    @property
    def end(self) -> int:
        """The token that ends a text, the first of them where there are several."""
        return int(self._ends[0])

    def encode_plain(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def generate_batch(self, requests: Sequence[Request]) -> list[Generation]:
        """Replies to many prompts, in the order asked."""
        return [generation for generation, _ in self.drawn(requests)]

    def drawn(self, requests: Sequence[Request], *, states: bool = False) -> list[Drawn]:
        """The same with what the first replies were drawn from, where `states` asks for it. Alike lengths run together,
        so that little is padded."""
        encoded = [self.encode(request.prompt) for request in requests]
        order = sorted(range(len(requests)), key=lambda i: (*_kind(requests[i]), len(encoded[i])))
        results: dict[int, Drawn] = {}
        for group in _groups(order, requests, size=self.max_batch):
            drawn = self._generate([requests[i] for i in group], [encoded[i] for i in group], states)
            results.update(zip(group, drawn, strict=True))
        return [results[i] for i in range(len(requests))]

    @torch.inference_mode()
    def _generate(self, requests: Sequence[Request], prompts: Sequence[list[int]], states: bool) -> list[Drawn]:
        rows, draws, limit = len(requests), requests[0].n, max(r.max_tokens or TOKENS for r in requests)
        ids, seen = padded(prompts, self.device)  # [B, P]; no token sees what is padded after it, so no mask is needed
        lengths = seen.sum(1)  # [B]
        kept, where = torch.unique(lengths - 1, return_inverse=True)
        out = self.model(input_ids=ids, use_cache=True, logits_to_keep=kept, output_hidden_states=states)
        beams = requests[0].beams
        cache = with_room(out.past_key_values, (beams or draws) * limit)
        each = torch.arange(rows, device=self.device)
        first = out.logits[each, where]  # [B, V]
        if beams:
            ends = self._ends.to(self.device)
            found = beam_search(self.model, ids, seen, cache, first, ends, width=beams, limit=limit)
            return [
                (self._generation([ids for _, ids in replies], [p for p, _ in replies], len(prompt)), None)
                for replies, prompt in zip(found, prompts, strict=True)
            ]
        logits = first[:, None].float().expand(-1, draws, -1)  # [B, R, V]
        read = [(each, out.hidden_states[-1][each, lengths - 1])] if states else []  # by the head, for the first draw
        sampler = _Sampler(requests, limit, self.device)
        ends = (torch.cat([self._ends, self._breaks]) if requests[0].one_line else self._ends).to(self.device)
        alive = torch.ones((rows, draws), dtype=torch.bool, device=self.device)
        log_prob = torch.zeros((rows, draws), device=self.device)
        written = torch.full((rows, draws, limit), -1, dtype=torch.long, device=self.device)
        own = torch.eye(draws, dtype=torch.bool, device=self.device)
        active = each  # rows still in the batch
        for step in range(limit):
            tokens, taken = sampler.next(logits, active, step)  # [A, R], [A, R]
            log_prob[active] += torch.where(alive[active], taken, 0.0)
            written[active, :, step] = torch.where(alive[active], tokens, -1)
            alive[active] &= ~torch.isin(tokens, ends)
            going = alive[active].any(1)
            left = int(going.sum())
            if step + 1 == limit or left == 0:
                break
            if left <= 0.7 * len(active):  # finished rows leave the batch
                cache.batch_select_indices(going.nonzero().squeeze(1))
                active, tokens = active[going], tokens[going]
            prefix = seen[active, None, None, :].expand(-1, 1, draws, -1)  # each branch sees its prompt
            branches = own.repeat(1, step + 1).expand(len(active), 1, -1, -1)  # and its own tokens
            out = self.model(
                input_ids=tokens,
                attention_mask=torch.cat([prefix, branches], dim=-1),  # [A, 1, R, P + R·(step+1)]
                position_ids=(lengths[active, None] + step).expand(-1, draws),
                past_key_values=cache,
                use_cache=True,
                output_hidden_states=states,
            )
            logits = out.logits.float()
            if states:
                read.append((active, out.hidden_states[-1][:, 0]))
        drawn = [[[t for t in branch if t >= 0] for branch in row] for row in written.tolist()]
        generations = [
            self._generation(drawn[row], log_prob[row].tolist(), len(prompts[row]), requests[row].one_line)
            for row in range(rows)
        ]
        if not states:
            return [(generation, None) for generation in generations]
        held = torch.stack([torch.zeros_like(read[0][1]).index_copy(0, *step) for step in read], dim=1)  # [B, T, D]
        return [(generation, held[row, : len(drawn[row][0])]) for row, generation in enumerate(generations)]

    def _generation(
        self, branches: Sequence[Sequence[int]], log_probs: Sequence[float], prompt_tokens: int, one_line: bool = False
    ) -> Generation:
        ends = {*self._ends.tolist(), *(self._breaks.tolist() if one_line else ())}
        texts = self.tokenizer.batch_decode(branches, skip_special_tokens=True)
        replies = (
            Reply(text, p, tuple(branch), "stop" if branch[-1] in ends else "truncated")
            for text, p, branch in zip(texts, log_probs, branches, strict=True)
        )
        return Generation(tuple(replies), prompt_tokens, sum(map(len, branches)))


class _Sampler:
    """Greedy for each request's first branch where it asks so; inverse-CDF sampling for the others, from uniforms that
    depend on the prompt and seed alone and so not on what else is in the batch."""

    def __init__(self, requests: Sequence[Request], limit: int, device: torch.device) -> None:
        draws, self._first = requests[0].n, int(requests[0].greedy)
        uniforms = np.zeros((len(requests), draws, limit))  # [B, R, steps]
        for row, request in enumerate(requests):
            digest = hashlib.sha256(f"{request.seed or 0}\x1f{request.prompt}".encode()).digest()
            rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
            uniforms[row, self._first :] = rng.random((draws - self._first, limit))
        self._uniforms = torch.from_numpy(uniforms).to(device)
        self._temperature = torch.tensor([r.temperature or 1.0 for r in requests], device=device)[:, None, None]

    def next(self, logits: Tensor, active: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Tokens [A, R] and their log-probabilities at temperature 1, from logits [A, R, V] of the rows `active`."""
        log_probs = logits.log_softmax(-1)
        tokens = logits.argmax(-1)  # [B, R]
        first = self._first  # of those that are sampled
        if logits.shape[1] > first:
            heights = (logits[:, first:] / self._temperature[active]).double().softmax(-1).cumsum(-1)  # [B, R-first, V]
            point = self._uniforms[active, first:, step, None] * heights[..., -1:]
            tokens = torch.cat([tokens[:, :first], torch.searchsorted(heights, point, right=True).squeeze(-1)], dim=1)
        return tokens, log_probs.gather(-1, tokens[..., None]).squeeze(-1)


def _kind(request: Request) -> tuple[int, int, bool, bool]:
    """What all requests of one batch share."""
    return request.n, request.beams, request.greedy, request.one_line


def _groups(order: Sequence[int], requests: Sequence[Request], size: int) -> list[list[int]]:
    alike = (list(group) for _, group in groupby(order, key=lambda index: _kind(requests[index])))
    return [group[start : start + size] for group in alike for start in range(0, len(group), size)]


def placed(device: str, precision: Precision) -> tuple[str, torch.dtype]:
    """Where a model runs and in what: on the GPU where there is one, in bfloat16 where the hardware multiplies it."""
    target = device if device != "auto" else ("cuda" if torch.cuda.is_available() else "cpu")
    if precision != "auto":
        return target, {"float32": torch.float32, "bfloat16": torch.bfloat16}[precision]
    fast = torch.cuda.is_bf16_supported() if target.startswith("cuda") else torch.cpu._is_avx512_bf16_supported()
    return target, torch.bfloat16 if fast else torch.float32


def weights_hash(folder: Path) -> str:
    """16 hex digits over a checkpoint's weight files."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
