import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

from benchmarks.tuning_memory import tuning_memory
from bestofq.core.preferences import PreferencePair, Turn
from bestofq.learning.config import DPOConfig
from bestofq.learning.objectives import dpo_loss, implicit_reward, preferences, rft_loss
from bestofq.learning.shared_prefix import Branches, can_share, reply_log_probs, shared_prefix
from bestofq.learning.tuning_batches import nodes_of


def test_equation_5_by_hand() -> None:
    chosen, rejected = torch.tensor([-1.0, -4.0]), torch.tensor([-3.0, -2.0])
    ref_chosen, ref_rejected = torch.tensor([-2.0, -4.0]), torch.tensor([-2.5, -2.0])
    rewards = implicit_reward(chosen, ref_chosen, beta=0.5), implicit_reward(rejected, ref_rejected, beta=0.5)
    torch.testing.assert_close(rewards[0], torch.tensor([0.5, 0.0]))
    # 0.5 · (1.0 - -0.5) = 0.75; the second pair is where the reference is: log 2
    torch.testing.assert_close(dpo_loss(*rewards), torch.tensor([math.log1p(math.exp(-0.75)), math.log(2)]))


def test_its_slope_is_largest_where_the_pair_is_most_wrong() -> None:
    chosen = torch.tensor([-1.0, -9.0], requires_grad=True)
    rewards = (implicit_reward(side, torch.zeros(2), beta=0.25) for side in (chosen, torch.tensor([-1.0, -1.0])))
    dpo_loss(*rewards).sum().backward()
    # -β·σ(-margin), of margins 0 and 0.25 · (-9 - -1) = -2
    torch.testing.assert_close(chosen.grad, torch.tensor([-0.125, -0.25 / (1 + math.exp(-2))]))


def test_equation_6_by_hand() -> None:
    def turns(*references: float) -> tuple[Turn, ...]:
        return tuple(Turn(prompt_ids=(next(numbers),), reply_ids=(1,), log_prob=one) for one in references)

    numbers = itertools.count()
    pairs = [
        PreferencePair(chosen=turns(-1.5, -3.0), rejected=turns(-1.0), margin=1, task="two turns against one"),
        PreferencePair(chosen=turns(-3.0), rejected=turns(-2.5, -1.5), margin=1, task="one against two"),
    ]
    nodes = nodes_of(turn for pair in pairs for turn in (*pair.chosen, *pair.rejected))
    sums = preferences(0.1).terms(pairs, nodes, torch.device("cpu"))(torch.tensor([-1.0, -2, -2, -3, -2, -1]))
    # pair 0: 0.1 · ((0.5 + 1.0) - (-1.0)) = 0.25; pair 1: 0.1 · (0 - (0.5 + 0.5)) = -0.1
    loss = math.log1p(math.exp(-0.25)) + math.log1p(math.exp(0.1))
    torch.testing.assert_close(sums, torch.tensor([loss, 1, 0.15, 0.15, 0.0]))


def test_theorem_1_the_minimiser_of_equation_5_is_the_optimal_policy() -> None:
    """Preferences drawn as σ(Q(h, a_w) - Q(h, a_l)), in exact expectation over all pairs of three nodes' actions."""
    generator = torch.Generator().manual_seed(0)
    nodes, actions, beta = 3, 5, 0.4
    q = torch.rand((nodes, actions), generator=generator, dtype=torch.float64)
    reference = torch.randn((nodes, actions), generator=generator, dtype=torch.float64).log_softmax(-1)
    first, second = torch.cartesian_prod(torch.arange(actions), torch.arange(actions)).unbind(1)
    preferred = (q[:, first] - q[:, second]).sigmoid()  # [nodes, pairs]
    logits = torch.zeros((nodes, actions), dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS(
        [logits], max_iter=500, tolerance_grad=1e-12, tolerance_change=1e-15, line_search_fn="strong_wolfe"
    )

    def expected_loss() -> torch.Tensor:
        solver.zero_grad()
        policy = logits.log_softmax(-1)
        rewards = implicit_reward(policy, reference, beta=beta)
        losses = dpo_loss(rewards[:, first], rewards[:, second])
        loss = (preferred * losses).sum()
        loss.backward()
        return loss

    solver.step(expected_loss)
    optimal = (reference + q / beta).softmax(-1)  # Eq. 9
    torch.testing.assert_close(logits.detach().softmax(-1), optimal, rtol=0, atol=1e-4)
    assert float((optimal - reference.exp()).abs().max()) > 0.1  # it had to be learned


def test_equation_4_by_hand() -> None:
    torch.testing.assert_close(rft_loss(torch.tensor([-1.5, -0.25])), torch.tensor([1.5, 0.25]))


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


WORDS = 128256


@pytest.mark.parametrize(
    ("wide", "deep", "inner"), [pytest.param(4096, 32, 14336, id="8B"), pytest.param(8192, 80, 28672, id="70B")]
)
def test_weights_and_adapters_are_counted_and_shared_out(wide: int, deep: int, inner: int, tmp_path: Path) -> None:
    shape = {"hidden_size": wide, "num_hidden_layers": deep, "intermediate_size": inner, "vocab_size": WORDS}
    LlamaConfig(num_attention_heads=wide // 128, num_key_value_heads=8, **shape).save_pretrained(tmp_path)
    block = 2 * wide * wide + 2 * wide * 1024 + 3 * wide * inner + 2 * wide
    whole = deep * block + 2 * WORDS * wide + wide
    adapters = 16 * deep * (2 * (wide + wide) + 2 * (wide + 1024) + 3 * (wide + inner))
    lora = DPOConfig(lora=16, gradient_checkpointing=True)
    alone, shared = (tuning_memory(str(tmp_path), lora, gpus) for gpus in (1, 8))
    assert alone.weights == 2 * whole == alone.stored == 8 * shared.weights
    assert alone.trained == 16 * adapters == 8 * shared.trained
    assert (alone.gathered, shared.gathered) == (0, 2 * (2 * block + 2 * WORDS * wide + wide))
    assert alone.activations == shared.activations
    every = tuning_memory(str(tmp_path), DPOConfig(gradient_checkpointing=True), 8)
    assert (every.weights, every.trained) == (0, 2 * whole)
    assert tuning_memory(str(tmp_path), DPOConfig(), 8).activations > every.activations
