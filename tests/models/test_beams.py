"""Beam search over a reply against every reply there is."""

import itertools

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from bestofq.core.language import Request, user
from bestofq.models.decoding import CACHE, beam_search, with_room
from bestofq.models.local import LocalModel

WORDS, END = 6, 0


@pytest.fixture(scope="module")
def tiny() -> LlamaForCausalLM:
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=WORDS,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        initializer_range=0.5,
        bos_token_id=1,
        eos_token_id=END,
        pad_token_id=1,
    )
    return LlamaForCausalLM(config).eval()


def log_prob(model: LlamaForCausalLM, prompt: list[int], reply: list[int]) -> float:
    logits = model(torch.tensor([prompt + reply])).logits[0].log_softmax(-1)
    return sum(logits[len(prompt) + i - 1, token].item() for i, token in enumerate(reply))


@torch.inference_mode()
def test_a_search_wide_enough_finds_the_likeliest_replies(tiny: LlamaForCausalLM) -> None:
    prompts, limit, width = [[1, 2, 3, 4], [5, 2]], 3, 36
    padded = torch.tensor([[1, 2, 3, 4], [5, 2, 1, 1]])
    seen = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]).bool()
    out = tiny(padded, use_cache=True)
    cache, first = with_room(getattr(out, CACHE), width * limit), out.logits[[0, 1], [3, 1]]
    searched = beam_search(tiny, padded, seen, cache, first, torch.tensor([END]), width=width, limit=limit)
    for prompt, found in zip(prompts, searched, strict=True):
        whole = {
            tuple(reply[: reply.index(END) + 1] if END in reply else reply)
            for reply in itertools.product(range(WORDS), repeat=limit)
        }
        best = sorted(((log_prob(tiny, prompt, list(r)), r) for r in whole), reverse=True)[:8]
        assert [reply for _, reply in found[:8]] == [reply for _, reply in best]
        assert [score for score, _ in found[:8]] == pytest.approx([score for score, _ in best], abs=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize("width", [2, 3, 5])
def test_a_narrow_search_finds_what_that_of_transformers_finds(tiny: LlamaForCausalLM, width: int) -> None:
    prompt, limit = torch.tensor([[1, 2, 3, 4]]), 6
    right = tiny.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        num_beams=width,
        num_return_sequences=width,
        do_sample=False,
        length_penalty=0.0,
        max_new_tokens=limit,
        return_dict_in_generate=True,
        output_scores=True,
    )
    out = tiny(prompt, use_cache=True)
    cache, seen = with_room(getattr(out, CACHE), width * limit), torch.ones(1, 4, dtype=torch.bool)
    found = beam_search(tiny, prompt, seen, cache, out.logits[:, -1], torch.tensor([END]), width=width, limit=limit)[0]
    assert [score for score, _ in found] == pytest.approx(right.sequences_scores.tolist(), abs=1e-4)
    for (_, reply), sequence in zip(found, right.sequences[:, 4:].tolist(), strict=True):
        assert list(reply) == sequence[: len(reply)]


def test_beams_are_distinct_replies_of_a_local_model(model: LocalModel) -> None:
    """In a batch with a longer prompt; at least as likely as what is drawn greedily."""
    prompts = ("goal: i need a mouse\npage:\nBuy Now [1]\nnext:", "goal: red\nnext:")
    found = model.generate_batch([Request(messages=user(p), beams=4, max_tokens=8) for p in prompts])
    greedy = model.generate_batch([Request(messages=user(p), max_tokens=8) for p in prompts])
    for prompt, generation, first in zip(prompts, found, greedy, strict=True):
        replies = generation.replies
        assert len({reply.ids for reply in replies}) == 4
        assert [r.log_prob for r in replies] == sorted((r.log_prob or 0.0 for r in replies), reverse=True)
        assert (replies[0].log_prob or 0.0) >= (first.replies[0].log_prob or 0.0) - 1e-3
        before = model.encode(prompt)
        for reply in replies:
            logits = model.model(torch.tensor([before + list(reply.ids)])).logits[0].log_softmax(-1)
            told = sum(logits[len(before) + i - 1, token].item() for i, token in enumerate(reply.ids))
            assert reply.log_prob == pytest.approx(told, abs=1e-2)
