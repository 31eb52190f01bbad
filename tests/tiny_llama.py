"""A Llama with random weights, as small as a test wants it."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


SHAPE = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}


def save_llama(folder: Path, tokenizer: PreTrainedTokenizerFast, **changed: float) -> LlamaForCausalLM:
    """Written to `folder` with the tokenizer, whose size and special tokens it takes."""
    shape = SHAPE | changed
    ends = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), tie_word_embeddings=True, **ends, **shape))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model


def save_instruct_llama(folder: Path, template: str = TEMPLATE) -> Path:
    """The same with a chat template, tokens that are bytes, and the same weights each time."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(["<s>", "</s>", *alphabet])}, merges=[]))
    tokens.pre_tokenizer, tokens.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokens, bos_token="<s>", eos_token="</s>", pad_token="</s>", chat_template=template
    )
    torch.manual_seed(0)
    save_llama(folder, tokenizer, max_position_embeddings=4096)
    return folder
