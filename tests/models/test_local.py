"""Batched generation from a transformers directory."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file
from tiny_llama import save_instruct_llama
from transformers import LlamaConfig, LlamaForCausalLM

from bestofq.core.errors import ConfigError, SetupError
from bestofq.core.language import Request, user
from bestofq.models.batching import MicroBatcher
from bestofq.models.checkpoints import has_own_template, weights_hash
from bestofq.models.decoding import CACHE, attend_in_order, with_room
from bestofq.models.local import LocalModel, PromptTokens

PROMPTS = (
    "goal: i need a mouse\npage:\nBuy Now [1]\nnext:",
    "goal: red\nnext:",
    "page: back search [2] want 40\nnext:",
)


def _log_prob(model: LocalModel, prompt: str, tokens: list[int]) -> float:
    """By one plain forward pass."""
    before = model.encode(prompt)
    logits = model.model(torch.tensor([before + tokens])).logits[0].log_softmax(-1)
    return sum(logits[len(before) + i - 1, token].item() for i, token in enumerate(tokens))


def _greedy(model: LocalModel, prompt: str, limit: int) -> list[int]:
    """Token by token, without a cache."""
    tokens: list[int] = []
    while len(tokens) < limit:
        logits = model.model(torch.tensor([model.encode(prompt) + tokens])).logits[0, -1]
        tokens.append(int(logits.argmax()))
        if tokens[-1] == model.tokenizer.eos_token_id:
            break
    return tokens


def test_first_reply_is_greedy_and_log_prob_is_of_the_whole_reply(model: LocalModel) -> None:
    generations = model.generate_batch([Request(messages=user(p), n=3, max_tokens=12) for p in PROMPTS])
    for prompt, generation in zip(PROMPTS, generations, strict=True):
        tokens = _greedy(model, prompt, 12)
        first = generation.replies[0]
        assert first.text == model.tokenizer.decode(tokens, skip_special_tokens=True)
        assert first.tokens == len(tokens)
        assert first.log_prob == pytest.approx(_log_prob(model, prompt, tokens), abs=1e-3)


def test_sampled_branches_do_not_see_each_other(model: LocalModel) -> None:
    """A branch's log-probability is what a plain forward pass over that branch alone says."""
    request = Request(messages=user(PROMPTS[0]), n=6, max_tokens=10, seed=5)
    replies = model.generate_batch([request])[0].replies
    assert len({reply.ids for reply in replies}) > 3
    for reply in replies:
        assert reply.log_prob == pytest.approx(_log_prob(model, request.prompt, list(reply.ids)), abs=1e-3)


def _with_layers(kind: str, folder: Path, like: LocalModel, **more: object) -> LocalModel:
    """A model with random weights and layers of one kind; every fourth token ends a reply."""
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4}
    more = {"vocab_size": len(like.tokenizer), "num_key_value_heads": 2, "initializer_range": 0.3} | more
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(
        **shape,
        **more,
        eos_token_id=list(range(0, len(like.tokenizer), 4)),
        pad_token_id=0,
        max_position_embeddings=256,
    )
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    like.tokenizer.save_pretrained(folder)
    return LocalModel.load(folder, device="cpu", precision="float32")


LINEAR = {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
LATENT = {"kv_lora_rank": 8, "q_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        pytest.param("Qwen3Next", {**LINEAR, **EXPERTS, "head_dim": 8}, id="a state"),
        pytest.param("Lfm2", {"layer_types": ["conv", "full_attention"] * 2}, id="a convolution"),
        pytest.param("Gemma3Text", {"head_dim": 8, "sliding_window": 20}, id="a window that some replies exceed"),
        pytest.param("Gemma3Text", {"head_dim": 8, "sliding_window": 256}, id="a window wider than any reply"),
        pytest.param("Gemma2", {"head_dim": 8, "sliding_window": 20, "attn_logit_softcapping": 2.0}, id="soft caps"),
        pytest.param("GptOss", {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2}, id="sinks"),
        pytest.param("DeepseekV2", {**LATENT, "num_key_value_heads": 4, "first_k_dense_replace": 4}, id="short values"),
        pytest.param("Mamba", {"state_size": 4}, id="no attention"),
        pytest.param("Falcon", {"alibi": True}, id="places told by the order of the keys"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # that a kernel is not installed
def test_draws_are_right_whatever_layers_remember(
    kind: str, more: dict[str, object], model: LocalModel, tmp_path: Path
) -> None:
    """Neither padding nor other draws of the prompt are read where a mask cannot hide them; the first reply is that of
    transformers."""
    other = _with_layers(kind, tmp_path, model, **more)
    requests = [Request(messages=user(prompt), n=6, max_tokens=8, seed=5) for prompt in (*PROMPTS, PROMPTS[1])]
    for request, (generation, states) in zip(requests, other.drawn(requests, states=True), strict=True):
        for reply in generation.replies:
            assert reply.log_prob == pytest.approx(_log_prob(other, request.prompt, list(reply.ids)), abs=1e-3)
        before, first = other.encode(request.prompt), list(generation.replies[0].ids)
        own = other.model.generate(torch.tensor([before]), do_sample=False, max_new_tokens=8)
        assert first == own[0, len(before) :].tolist()
        read = other.model(torch.tensor([before + first]), output_hidden_states=True).hidden_states[-1][0]
        torch.testing.assert_close(states, read[len(before) - 1 : -1], rtol=1e-3, atol=1e-3)


def test_a_class_whose_state_is_in_no_cache_is_refused_by_name(model: LocalModel, tmp_path: Path) -> None:
    other = _with_layers("RecurrentGemma", tmp_path, model, head_dim=8, lru_width=32)
    with pytest.raises(ConfigError, match=r"^RecurrentGemmaForCausalLM draws no replies here: [^\n]+ its --base-url$"):
        other.generate_batch([Request(messages=user(PROMPTS[0]))])


def test_draws_depend_on_prompt_and_seed_alone(model: LocalModel) -> None:
    request = Request(messages=user(PROMPTS[1]), n=4, max_tokens=8, seed=1)
    alone = model.generate_batch([request])[0]
    others = [Request(messages=user(p), n=4, max_tokens=8, seed=9) for p in PROMPTS]
    among = model.generate_batch([*others, request])[-1]
    assert [r.text for r in among.replies] == [r.text for r in alone.replies]
    other_seed = model.generate_batch([Request(messages=user(PROMPTS[1]), n=4, max_tokens=8, seed=2)])[0]
    assert [r.text for r in other_seed.replies][1:] != [r.text for r in alone.replies][1:]
    assert other_seed.replies[0].text == alone.replies[0].text


def test_draws_are_the_same_with_and_without_a_greedy_one_before_them(model: LocalModel) -> None:
    request = Request(messages=user(PROMPTS[1]), n=5, max_tokens=8, seed=1)
    drawn = Request(messages=user(PROMPTS[1]), n=4, greedy=False, max_tokens=8, seed=1)
    all_five, four = model.generate_batch([request, drawn])
    assert [reply.ids for reply in four.replies] == [reply.ids for reply in all_five.replies[1:]]


async def test_requests_in_flight_share_batches(model: LocalModel) -> None:
    together = await asyncio.gather(*(model.generate(Request(messages=user(p), max_tokens=6)) for p in PROMPTS * 5))
    apart = [model.generate_batch([Request(messages=user(p), max_tokens=6)])[0] for p in PROMPTS * 5]
    assert [g.replies[0].text for g in together] == [g.replies[0].text for g in apart]


def test_a_reply_that_is_cut_off_says_so(model: LocalModel) -> None:
    reply = model.generate_batch([Request(messages=user(PROMPTS[0]), max_tokens=1)])[0].replies[0]
    assert reply.tokens == 1
    assert reply.finished == (reply.text == "")


def test_weights_that_are_no_safetensors_have_a_revision_of_their_own(tmp_path: Path) -> None:
    folder = save_instruct_llama(tmp_path / "model")
    (file,) = folder.glob("*.safetensors")
    weights = load_file(file)
    file.unlink()
    with pytest.raises(SetupError, match=r"no weights in .*model: copy"):
        weights_hash(folder)
    revisions = set()
    for factor in (1, 2):
        torch.save({name: tensor * factor for name, tensor in weights.items()}, folder / "pytorch_model.bin")
        assert LocalModel.load(folder).revision == PromptTokens.read(folder).revision
        revisions.add(weights_hash(folder))
    assert len(revisions) == 2


def test_a_missing_model_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"no language model at [^\n]+--base-url[^\n]+$"):
        LocalModel.load(tmp_path / "nothing")


def test_an_endpoint_s_model_without_its_address_is_refused_before_a_hub_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bestofq.models.local.AutoModelForCausalLM", None)
    monkeypatch.setattr("bestofq.models.local.AutoTokenizer", None)
    assert not has_own_template("gpt-4.1")
    with pytest.raises(SetupError, match=r"no language model at gpt-4.1: give --model [^\n]+--base-url[^\n]+$"):
        LocalModel.load("gpt-4.1")


TEXT, NEXT = torch.randint(0, 64, (3, 9)), torch.randint(0, 64, (3, 2, 2))  # [B, P], [steps, B, R]


@torch.inference_mode()
def _logits(groups: int, *, in_order: bool) -> list[torch.Tensor]:
    """Of three steps of two branches each after a prompt; then of one more after the first row has left."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=64, num_key_value_heads=groups, attn_implementation="sdpa", **sizes)
    model = LlamaForCausalLM(config).eval()
    if in_order:
        attend_in_order(model)
    out = model(input_ids=TEXT[:2], use_cache=True)
    cache = with_room(getattr(out, CACHE), 8) if in_order else getattr(out, CACHE)
    steps = [out.logits]
    for step, tokens in enumerate([*NEXT, NEXT[0, 1:]]):
        rows = len(tokens)
        if rows == 1:
            cache.batch_select_indices(torch.tensor([1]))
        seen = torch.cat(
            [torch.ones(2, 9, dtype=torch.bool), torch.eye(2, dtype=torch.bool).repeat(1, step + 1)], dim=1
        )
        out = model(
            input_ids=tokens,
            attention_mask=seen.expand(rows, 1, -1, -1),
            position_ids=torch.full((rows, 2), 9 + step),
            use_cache=True,
            **{CACHE: cache},
        )
        steps.append(out.logits)
    return steps


@pytest.mark.parametrize("groups", [4, 2, 1], ids=["heads of their own", "grouped", "one group"])
def test_branches_read_the_cache_as_the_fused_kernel_does(groups: int) -> None:
    for found, right in zip(_logits(groups, in_order=True), _logits(groups, in_order=False), strict=True):
        torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-5)


PATIENCE = 10  # seconds until a barrier that nobody else reaches breaks


async def test_one_lane_takes_all_that_waits_up_to_its_limit() -> None:
    sizes: list[int] = []

    def double(items: Sequence[int]) -> list[int]:
        sizes.append(len(items))
        return [2 * item for item in items]

    batcher: MicroBatcher[int, int] = MicroBatcher(double, limit=24)
    assert await asyncio.gather(*(batcher.submit(n) for n in range(40))) == [2 * n for n in range(40)]
    assert sizes == [24, 16]


async def test_two_lanes_share_what_waits_and_work_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=PATIENCE)
    sizes: list[int] = []

    def double(items: Sequence[int]) -> list[int]:
        both.wait()  # breaks unless another batch is in work
        sizes.append(len(items))
        return [2 * item for item in items]

    batcher: MicroBatcher[int, int] = MicroBatcher(double, limit=64, lanes=2)
    assert await asyncio.gather(*(batcher.submit(n) for n in range(41))) == [2 * n for n in range(41)]
    assert sorted(sizes) == [20, 21]
    assert batcher.busy == 0


async def test_a_request_waits_for_no_batch_while_a_lane_is_free() -> None:
    held = threading.Event()

    def work(items: Sequence[str]) -> Sequence[str]:
        assert items != ["long"] or held.wait(PATIENCE)
        return items

    batcher: MicroBatcher[str, str] = MicroBatcher(work, limit=64, lanes=2)
    long = asyncio.create_task(batcher.submit("long"))
    await asyncio.sleep(0.05)
    assert await batcher.submit("short") == "short"
    assert not long.done()
    held.set()
    assert await long == "long"


@pytest.mark.parametrize("turns", range(5))
def test_a_run_that_is_cut_off_leaves_nothing_to_wait_for(turns: int) -> None:
    """Before a batch is made, before it is worked on, and while."""
    batcher: MicroBatcher[int, Sequence[int]] = MicroBatcher(lambda items: [items] * len(items), limit=1)

    async def cut_off() -> None:
        asked = [asyncio.create_task(batcher.submit(n)) for n in range(3)]
        for _ in range(turns):
            await asyncio.sleep(0)
        assert not all(one.done() for one in asked)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        asyncio.run(cut_off())
    assert asyncio.run(asyncio.wait_for(batcher.submit(3), PATIENCE)) == [3]


async def test_an_error_reaches_its_own_batch_alone_and_the_next_is_worked_on() -> None:
    def work(items: Sequence[int]) -> Sequence[int]:
        if 0 in items:
            raise ZeroDivisionError("a bug")
        return items

    batcher: MicroBatcher[int, int] = MicroBatcher(work, limit=8)
    found = await asyncio.gather(*(batcher.submit(n) for n in range(16)), return_exceptions=True)
    assert [type(one) for one in found[:8]] == [ZeroDivisionError] * 8
    assert found[8:] == list(range(8, 16))
    with pytest.raises(ZeroDivisionError):
        await batcher.submit(0)
    assert await batcher.submit(1) == 1
