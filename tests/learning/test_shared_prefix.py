from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

from bestofq.learning.shared_prefix import Branches, can_share, reply_log_probs, shared_prefix

SMALL = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "attention_dropout": 0.0,
}
SLIDING = {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}
CONFIGS = {
    "llama": LlamaConfig(**SMALL),
    "qwen2": Qwen2Config(**SMALL),
    "qwen2, sliding window in two layers": Qwen2Config(**SMALL, **SLIDING),
    "qwen3": Qwen3Config(**SMALL),
    "mistral, sliding window": MistralConfig(**SMALL, sliding_window=5),
    "gpt2": GPT2Config(vocab_size=97, n_embd=32, n_layer=2, n_head=4, n_positions=128),
}


def made(name: str) -> Any:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIGS[name], attn_implementation="sdpa")
    for parameter in model.parameters():  # far from uniform, so that what is seen matters
        torch.nn.init.normal_(parameter, std=0.3) if parameter.ndim > 1 else None
    return model.eval()


def nodes() -> list[Branches]:
    generator = torch.Generator().manual_seed(1)

    def drawn(count: int) -> list[int]:
        return torch.randint(97, (count,), generator=generator).tolist()

    return [
        Branches(drawn(11), [drawn(4), drawn(1), drawn(7)]),
        Branches(drawn(1), [drawn(3), drawn(3)]),
        Branches(drawn(6), [drawn(1)]),
    ]


def one_by_one(model: Any, some: list[Branches]) -> torch.Tensor:
    """The definition: one forward a reply, nothing shared, nothing padded."""
    found = []
    for node in some:
        for reply in node.replies:
            logits = model(input_ids=torch.tensor([[*node.prompt, *reply]]), use_cache=False).logits[0]
            steps = logits.log_softmax(-1)[len(node.prompt) - 1 : -1]
            found.append(steps.gather(-1, torch.tensor(reply)[:, None]).sum())
    return torch.stack(found)


def gradients(model: Any, log_probs: torch.Tensor) -> list[torch.Tensor]:
    weights = torch.linspace(-1, 1, len(log_probs))
    return list(torch.autograd.grad((weights * log_probs).sum(), list(model.parameters())))


@pytest.mark.parametrize("name", CONFIGS)
def test_likelihoods_and_gradients_are_those_of_the_plain_computation(name: str) -> None:
    model = made(name)
    assert can_share(model)
    assert model.config._attn_implementation == "sdpa"
    plain = one_by_one(model, nodes())
    expected = gradients(model, plain)
    with shared_prefix(model):
        shared = reply_log_probs(model, nodes())
        found = gradients(model, shared)
    padded = reply_log_probs(model, nodes(), share=False)
    torch.testing.assert_close(shared, plain, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(padded, plain, rtol=1e-5, atol=1e-5)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5 * max(1.0, float(other.abs().max())))


def test_sharing_outside_is_refused() -> None:
    with pytest.raises(ValueError, match="outside they would see each other"):
        reply_log_probs(made(next(iter(CONFIGS))), nodes())
