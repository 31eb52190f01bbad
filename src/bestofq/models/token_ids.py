"""Check, before a search begins, that a served model reports what tuning needs: token ids and log-probabilities."""

from typing import TYPE_CHECKING

from bestofq.core.errors import ConfigError
from bestofq.core.language import Request, ids_hash, user
from bestofq.models.chat import ChatModel

if TYPE_CHECKING:  # an agent at an endpoint needs no PyTorch
    from bestofq.models.local import PromptTokens

APART = 0.1  # nats between two answers for one token: more than bfloat16 and other batches make
_WORD = "Name any number between 1 and 100. Reply with the number alone."  # many first tokens are about as likely


async def check_token_ids(model: ChatModel, temperature: float, setting: str, tokens: "PromptTokens | None") -> None:
    """Raise ConfigError if a server cannot give what tuning needs. It draws one token, at most nine times.

    Tuning needs token ids, the prompt that `tokens` make, and log-probabilities at temperature 1: DPO's reference is
    π_ref(a|h) (Agent Q, Eq. 5). SGLang gives them at the temperature of its draws, and so does vLLM with
    `--logprobs-mode processed_logprobs`. At temperature 0 servers answer as at 1. `setting` names `temperature`.
    """
    n, prompt = 1 if temperature == 1 else 9, user(_WORD)
    ask = Request(messages=prompt, n=n, max_tokens=1, temperature=temperature, seed=0, log_probs=True)
    greedy, *draws = (await model.generate(ask)).replies
    if tokens is not None and greedy.prompt_hash != ids_hash(tokens.encode(*prompt)):
        raise ConfigError(
            f"{model.name} at {model.config.base_url} reads a prompt as other tokens than the chat template of "
            f"{tokens.name} make of it, and tuning needs the same: set model.path to the checkpoint that is served"
        )
    for reply in draws:
        if reply.ids == greedy.ids and abs((reply.log_prob or 0) - (greedy.log_prob or 0)) > APART:
            raise ConfigError(
                f"{model.name} at {model.config.base_url} gives log-probabilities at the sampling temperature "
                f"{temperature:g} ({reply.log_prob:.2f} for a token that has {greedy.log_prob:.2f}), and tuning needs "
                "them at 1: start vLLM with --logprobs-mode raw_logprobs, SGLang with the environment variable "
                f"SGLANG_RETURN_ORIGINAL_LOGPROB=1, or set {setting}=1"
            )
