"""Any causal language model in a transformers directory, the pocket model among them: batched generation.

A prompt's key-value cache is computed once for all its draws, which are branches of one row. At each step a row feeds
one token a branch. A mask lets each branch see the prompt and its own tokens only, so the prompt's cache is never
copied and is read once. Layers that keep a state, or have too short a window, cannot separate branches, nor can classes
without "sdpa". Then each draw is a row of its own, in a batch with prompts of the same length.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from jinja2 import TemplateError
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from bestofq.core.errors import ConfigError, ContextError
from bestofq.core.language import Finish, Generation, Message, Reply, Request, break_tokens, ids_hash
from bestofq.core.observation import Screenshot
from bestofq.core.picture import Picture
from bestofq.core.usage import Usage
from bestofq.models.batching import MicroBatcher, in_groups
from bestofq.models.checkpoints import Precision, checkpoint_errors, load_checkpoint, revision_of
from bestofq.models.constrained import Grammars
from bestofq.models.decoding import CACHE, attend_in_order, pad_ids, window_of, with_room
from bestofq.models.shipped import find_model

# On a CPU, oneDNN and PyTorch's layer over it keep a kernel for each of the last 1,024 shapes: hundreds of megabytes
# where hardly a batch has the shape of another. A few serve as well; read when the first kernel is made.
for _cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_cache, "16")

TOKENS, HELD_TOKENS = 64, 1000  # of a reply, at most, where a request does not say: free, or held to a schema
Drawn = tuple[Generation, Tensor | None]
"""Replies and, where asked for, what the head read when it drew each token of the first [T, D]."""


class PromptTokens:
    """What a checkpoint makes of a prompt: its tokenizer, without its weights."""

    def __init__(self, tokenizer: Any, *, name: str, revision: str | Callable[[], str]) -> None:
        self.tokenizer, self.name, self._revision = tokenizer, name, revision

    @cached_property
    def revision(self) -> str:
        """The hub's commit, or a hash of the weights on disk."""
        return self._revision if isinstance(self._revision, str) else self._revision()

    @classmethod
    def read(cls, path: str | Path) -> "PromptTokens":
        """Of a transformers directory or hub name. SetupError when it cannot be found."""
        with checkpoint_errors(path):
            config, tokenizer = (auto.from_pretrained(path) for auto in (AutoConfig, AutoTokenizer))
            return PromptTokens(tokenizer, name=Path(path).name, revision=lambda: revision_of(config, path))

    @cached_property
    def _special(self) -> re.Pattern[str]:
        added = self.tokenizer.added_tokens_decoder.values()
        tokens = [token.content for token in added if token.special or token.content.startswith("<")]
        return re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) or r"(?!)")

    def encode(self, *prompt: str | Message) -> list[int]:
        """Token ids of a prompt or a conversation: by the chat template, else as plain text after `start`. What the
        texts spell is never a special token."""
        turns = [Message(role="user", text=turn) if isinstance(turn, str) else turn for turn in prompt]
        if self.tokenizer.chat_template:
            try:
                return self._apply_template([(turn.role, turn.text) for turn in turns])
            except TemplateError:  # some know no system prompt: then it begins the user's turn
                first = "\n\n".join(turn.text for turn in turns[:2])
                return self._apply_template([("user", first), *((turn.role, turn.text) for turn in turns[2:])])
        return [*self.start, *self.encode_plain("\n".join(turn.text for turn in turns))]

    def _apply_template(self, turns: Sequence[tuple[str, str]]) -> list[int]:
        messages = [{"role": role, "content": break_tokens(text, self._special)} for role, text in turns]
        return list(self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))

    @property
    def start(self) -> list[int]:
        """The token that begins a text, or none where the tokenizer has no such token."""
        return [] if self.tokenizer.bos_token_id is None else [self.tokenizer.bos_token_id]

    def encode_plain(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(break_tokens(text, self._special), add_special_tokens=False))


class LocalModel(PromptTokens):
    """A frozen causal language model on one device."""

    def __init__(self, model: Any, tokenizer: Any, *, name: str, revision: str, max_batch: int = 64) -> None:
        super().__init__(tokenizer, name=name, revision=revision)
        self.model = model.eval().requires_grad_(False)
        self.device: torch.device = next(model.parameters()).device
        self.max_batch = max_batch
        self._threads = torch.get_num_threads() if self.device.type == "cpu" else 1
        self._batcher: MicroBatcher[Request, Generation] = MicroBatcher(
            self._on_its_share, limit=max_batch, lanes=min(2, self._threads)
        )
        ends = model.generation_config.eos_token_id if model.generation_config else tokenizer.eos_token_id
        self._ends = torch.tensor([ends] if isinstance(ends, int) else list(ends or [tokenizer.eos_token_id]))

    @classmethod
    def load(cls, path: str | Path = "pocket", *, device: str = "auto", precision: Precision = "auto") -> Self:
        """Load a transformers directory or hub name. SetupError when it cannot be found."""
        path = find_model(path)
        with checkpoint_errors(path):
            model, tokenizer, target, revision = load_checkpoint(AutoModelForCausalLM, path, device, precision)
        attend_in_order(model)
        return cls(model.to(target), tokenizer, name=Path(path).name, revision=revision)

    @property
    def dim(self) -> int:
        return int(self.model.config.get_text_config().hidden_size)

    @cached_property
    def _grammars(self) -> Grammars:
        return Grammars(self.tokenizer, self._ends.tolist())

    @cached_property
    def _breaks(self) -> Tensor:
        texts = self.tokenizer.batch_decode([[token] for token in range(len(self.tokenizer))])
        return torch.tensor([token for token, text in enumerate(texts) if "\n" in text], dtype=torch.long)

    @cached_property
    def _window(self) -> float:
        return window_of(self.model, torch.tensor([[self.end]], device=self.device))

    def _apart(self, request: Request, prompt: Sequence[int]) -> int:
        """The prompt's length where each draw needs a row of its own, which is not padded; else 0."""
        return len(prompt) if len(prompt) + _most_tokens(request) > self._window else 0

    async def picture(self, screenshot: Screenshot, pixels: int | None = None) -> Picture:
        """ConfigError: it reads texts alone."""
        raise ConfigError(f"{self.name} reads no pictures: ask it in texts alone, or a model behind --base-url")

    async def generate(self, request: Request) -> Generation:
        """Replies, batched with others in flight. ConfigError on pictures, ContextError where there is no room."""
        for screenshot in (one for message in request.messages for one in message.screenshots):
            await self.picture(screenshot)
        if request.schema is not None or len(request.messages) > 1:  # what is asked in short prompts fits
            self._check_room(request)
        started = time.perf_counter()
        generation = await self._batcher.submit(request)
        seconds = time.perf_counter() - started
        return replace(generation, usage=generation.usage.model_copy(update={"seconds": seconds}))

    def _on_its_share(self, requests: Sequence[Request]) -> list[Generation]:
        """Two batches at once, each on half the cores, are faster than one after the other: small models wait a lot."""
        if self._threads == 1:
            return self.generate_batch(requests)
        torch.set_num_threads(self._threads // self._batcher.busy)  # of this Python thread's work
        try:
            return self.generate_batch(requests)
        finally:
            torch.set_num_threads(self._threads)

    def _check_room(self, request: Request) -> None:
        """ContextError where prompt and reply are longer than what the model was made for."""
        room = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        wanted = len(self.encode(*request.messages)) + _most_tokens(request)
        if room is not None and wanted > room:
            raise ContextError(f"prompt and reply take {wanted:,} tokens, {self.name} has room for {room:,}")

    @property
    def end(self) -> int:
        """The token that ends a text, the first of them where there are several."""
        return int(self._ends[0])

    def generate_batch(self, requests: Sequence[Request]) -> list[Generation]:
        """Replies to many prompts, in the order asked."""
        return [generation for generation, _ in self.drawn(requests)]

    def drawn(self, requests: Sequence[Request], *, states: bool = False) -> list[Drawn]:
        """The same with what the first replies were drawn from, where `states` asks for it."""
        asked = [(request, self.encode(*request.messages)) for request in requests]
        return in_groups(
            asked,
            lambda some: self._generate(some, states),
            size=self.max_batch,
            length=lambda one: len(one[1]),
            kind=lambda one: (*(one[0].n, one[0].greedy, one[0].one_line, _most_tokens(one[0])), self._apart(*one)),
        )

    @torch.inference_mode()
    def _generate(self, asked: Sequence[tuple[Request, list[int]]], states: bool) -> list[Drawn]:
        """Of requests of one kind, each with its prompt's tokens."""
        requests, prompts = [request for request, _ in asked], [prompt for _, prompt in asked]
        rows, draws, limit = len(requests), requests[0].n, _most_tokens(requests[0])
        ids, seen = pad_ids(prompts, self.device)  # [B, P]; no token sees what is padded after it, so no mask is needed
        lengths = seen.sum(1)  # [B]
        kept, where = torch.unique(lengths - 1, return_inverse=True)
        out = self.model(input_ids=ids, use_cache=True, logits_to_keep=kept, output_hidden_states=states)
        apart = bool(self._apart(*asked[0]))
        cache = getattr(out, CACHE) if apart else with_room(getattr(out, CACHE), draws * limit)
        each = torch.arange(rows, device=self.device)
        logits = out.logits[each, where][:, None].float().expand(-1, draws, -1)  # [B, R, V]
        read = [(each, out.hidden_states[-1][each, lengths - 1])] if states else []  # by the head, for the first draw
        sampler = _Sampler(requests, limit, self.device)
        grammar = self._grammars.hold(requests) if any(request.schema for request in requests) else None
        ends = (torch.cat([self._ends, self._breaks]) if requests[0].one_line else self._ends).to(self.device)
        alive = torch.ones((rows, draws), dtype=torch.bool, device=self.device)
        log_prob = torch.zeros((rows, draws), device=self.device)
        each_log_prob = torch.zeros((rows, draws, limit), device=self.device)
        written = torch.full((rows, draws, limit), -1, dtype=torch.long, device=self.device)
        own = torch.eye(draws, dtype=torch.bool, device=self.device)
        active = each  # rows still in the batch
        if apart:
            cache.reorder_cache(each.repeat_interleave(draws))
        for step in range(limit):
            if grammar is not None:
                logits = grammar.mask_logits(logits, active, alive)
            tokens, taken = sampler.next(logits, active, step)  # [A, R], [A, R]
            if grammar is not None:
                grammar.take(tokens, active, alive)
            log_prob[active] += torch.where(alive[active], taken, 0.0)
            each_log_prob[active, :, step] = taken
            written[active, :, step] = torch.where(alive[active], tokens, -1)
            alive[active] &= ~torch.isin(tokens, ends)
            going = alive[active].any(1)
            left = int(going.sum())
            if step + 1 == limit or left == 0:
                break
            if left <= 0.7 * len(active):  # finished rows leave the batch
                cache.reorder_cache((going.repeat_interleave(draws) if apart else going).nonzero().squeeze(1))
                active, tokens = active[going], tokens[going]
            prefix = seen[active, None, None, :].expand(-1, 1, draws, -1)  # each branch sees its prompt
            branches = own.repeat(1, step + 1).expand(len(active), 1, -1, -1)  # and its own tokens
            fed = (-1, 1) if apart else (-1, draws)
            out = self.model(
                input_ids=tokens.reshape(fed),
                attention_mask=None if apart else torch.cat([prefix, branches], dim=-1),  # [A, 1, R, P + R·(step+1)]
                position_ids=(lengths[active, None] + step).expand(-1, draws).reshape(fed),
                use_cache=True,
                output_hidden_states=states,
                **{CACHE: cache},
            )
            logits = out.logits.float().view(len(active), draws, -1)
            if states:
                read.append((active, out.hidden_states[-1].view(len(active), draws, -1)[:, 0]))
        drawn = [[[t for t in branch if t >= 0] for branch in row] for row in written.tolist()]
        generations = [
            self._generation(requests[row], prompts[row], drawn[row], log_prob[row].tolist(), tokens)
            for row, tokens in enumerate(each_log_prob.tolist())
        ]
        if not states:
            return [(generation, None) for generation in generations]
        held = torch.stack([torch.zeros_like(read[0][1]).index_copy(0, *step) for step in read], dim=1)  # [B, T, D]
        return [(generation, held[row, : len(drawn[row][0])]) for row, generation in enumerate(generations)]

    def _generation(
        self,
        request: Request,
        prompt: Sequence[int],
        branches: Sequence[Sequence[int]],
        log_probs: Sequence[float],
        each: Sequence[Sequence[float]],
    ) -> Generation:
        ends = {*self._ends.tolist(), *(self._breaks.tolist() if request.one_line else ())}
        texts = self.tokenizer.batch_decode(branches, skip_special_tokens=True)
        read, replies = ids_hash(prompt), []
        for text, log_prob, ids, own in zip(texts, log_probs, branches, each, strict=True):
            finish: Finish = "stop" if ids[-1] in ends else "truncated"
            told = tuple(own[: len(ids)])
            replies.append(Reply(text, log_prob, tuple(ids), finish, prompt_hash=read, log_probs=told))
        usage = Usage(role=request.role, tokens_in=len(prompt), tokens_out=sum(map(len, branches)), calls=1)
        return Generation(tuple(replies), usage)


def _most_tokens(request: Request) -> int:
    return request.max_tokens or (HELD_TOKENS if request.schema else TOKENS)


class _Sampler:
    """Greedy choices for a request's first branch if it wants that; inverse-CDF sampling for the others.

    The uniforms depend on the prompt and the seed alone, not on the rest of the batch.
    """

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
