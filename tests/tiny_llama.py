"""A Llama with random weights, as small as a test wants it."""

from pathlib import Path

from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast


def save_llama(folder: Path, tokenizer: PreTrainedTokenizerFast, **shape: float) -> LlamaForCausalLM:
    """Written to `folder` with the tokenizer, whose size and special tokens it takes."""
    ends = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), tie_word_embeddings=True, **ends, **shape))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model
