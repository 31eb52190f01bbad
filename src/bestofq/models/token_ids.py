"""What tuning needs of a served model: the tokens of its prompts and replies, and their log-probabilities.

`return_token_ids` asks for them, in vLLM's chat completions (from 0.10.2; the prompt's stand beside the choices) and in
SGLang's (from July 2026; they stand in each choice), `logprobs` for the likelihoods.
"""

from typing import Any

from bestofq.core.errors import ConfigError
from bestofq.core.language import ids_hash

ASK = {"return_token_ids": True}
NEEDS = "tuning needs them: serve the model by vLLM 0.10.2 or later, or a current SGLang, or set chat.token_ids=false"


def drawn_tokens(completion: Any, choice: Any, where: str) -> tuple[tuple[int, ...], float, str]:
    """Of a choice: its tokens as drawn, the sum of their log-probabilities, and `ids_hash` of the prompt's tokens.
    ConfigError where the server gave none, or not one log-probability for each token."""
    ids = getattr(choice, "token_ids", None)
    prompt = getattr(completion, "prompt_token_ids", None) or getattr(choice, "prompt_token_ids", None)
    if ids is None or prompt is None:
        raise ConfigError(f"{where} ignores return_token_ids and gave no token ids; {NEEDS}")
    log_probs = [one.logprob for one in getattr(getattr(choice, "logprobs", None), "content", None) or ()]
    if len(log_probs) != len(ids):
        count = f"{len(log_probs)} log-probabilities (logprobs) of {len(ids)} tokens"
        raise ConfigError(f"{where} gave {count}; {NEEDS}")
    return tuple(map(int, ids)), sum(log_probs), ids_hash(prompt)
