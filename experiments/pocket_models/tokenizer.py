"""A small byte-level BPE tokenizer in which a mark, ` [7]`, is one token and a price few."""

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from bestofq.models.checkpoints import POCKET_TEMPLATE

END = "<end>"
PAD = "<pad>"
START = "<start>"
# Marks stay whole; numbers come in groups of at most three digits; words take the space before them.
_PIECES = r" ?\[\d+\]|\.\d\d| ?\$?\d{1,3}|\n| ?[A-Za-z]+| ?[^\sA-Za-z0-9]+|\s+"


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """A tokenizer of at most `vocabulary` tokens, with all 256 bytes among them, so that any text can be written."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=START,
        eos_token=END,
        pad_token=PAD,
        chat_template=POCKET_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )
