"""Words changed throughout an example, so that a model learns to read and copy them where it could know them by heart.

A small model that is taught a few hundred real products many times over learns their words, not to copy: on products
that it has not seen it writes those that it has.
"""

import random
import re
from collections.abc import Sequence

from experiments.pocket_models.examples import Example, Turn

WORD = re.compile(r"[A-Za-z]{3,}")
KEPT = frozenset(
    WORD.findall(
        "goal did page next review find with and price lower than dollar click write submit clear scroll back enter "
        "link button radio searchbox textbox search buy now prev description feature total result checked none all "
        "again chosen need want move not fit wrong right neither new under for item the"
    )
)
"""Of commands, pages, goals and reviews, without the plural's s: what a model must not take from the page."""
CHANGED = 0.5  # of the other words


def renamed(examples: Sequence[Example], share: float, rng: random.Random) -> list[Example]:
    """The examples, `share` of them with half of their own words changed, each into the same made-up one everywhere."""
    stems = sorted({_stem(word) for example in examples for word in _words(example)} - KEPT)
    return [_renamed(example, stems, rng) if rng.random() < share else example for example in examples]


def _renamed(example: Example, stems: Sequence[str], rng: random.Random) -> Example:
    own = sorted({_stem(word) for word in _words(example)} - KEPT)
    made_up = {stem: _made_up(rng.choice(stems), rng.choice(stems)) for stem in own if rng.random() < CHANGED}

    def changed(found: re.Match[str]) -> str:
        word = found[0]
        if (stem := _stem(word)) not in made_up:
            return word
        new = made_up[stem] + word[len(stem) :].lower()
        return new.upper() if word.isupper() else new.capitalize() if word[0].isupper() else new

    return tuple(Turn(WORD.sub(changed, turn.prompt), WORD.sub(changed, turn.reply)) for turn in example)


def _words(example: Example) -> list[str]:
    return [word for turn in example for text in turn for word in WORD.findall(text)]


def _stem(word: str) -> str:
    """The same for a word and its plural."""
    return word.lower().rstrip("s")


def _made_up(first: str, second: str) -> str:
    """The first half of a word and the second half of another."""
    return first[: (len(first) + 1) // 2] + second[(len(second) + 1) // 2 :]
