"""Demonstrations with made-up words."""

import random
import re

from experiments.pocket_models.examples import Example, Turn
from experiments.pocket_models.renaming import KEPT, renamed

EXAMPLES: list[Example] = [
    (
        Turn(
            "goal: Find me blue shirts, size: large\npage:\nBLUE Shirt [1] Red Shirts [2]\nnext:",
            " need blue\nclick BLUE Shirt [1]",
        ),
        Turn("\nreview: click link Red Shirts\nso:", " blue not: wrong"),
    ),
    (
        Turn(
            "goal: Find me wooden lamps\npage:\nBack to Search [1]\nnext:",
            " none fits, search again\nclick Back to Search [1]",
        ),
    ),
] * 30


def test_the_same_word_becomes_the_same_everywhere_and_no_command_changes() -> None:
    made = renamed(EXAMPLES, 1.0, random.Random(0))
    changed = 0
    for before, after in zip(EXAMPLES, made, strict=True):
        old, new = ("\n".join(text for turn in one for text in turn) for one in (before, after))
        assert re.sub("[A-Za-z]+", "", old) == re.sub("[A-Za-z]+", "", new)
        pairs = dict(zip(re.findall("[a-z]+", old.lower()), re.findall("[a-z]+", new.lower()), strict=True))
        for word, now in zip(re.findall("[a-z]+", old.lower()), re.findall("[a-z]+", new.lower()), strict=True):
            assert pairs[word] == now
        assert all(pairs[word] == word for word in pairs if word.rstrip("s") in KEPT or len(word) < 3)
        changed += pairs.get("blue", "blue") != "blue"
    assert 8 <= changed <= 22  # of 30, half of them
    wanted = re.search(r"need (\w+)", made[0][0].reply)
    assert wanted is not None
    assert f"click {wanted[1].upper()} " in made[0][0].reply  # in the letters that the page has


def test_a_share_of_none_changes_nothing() -> None:
    assert renamed(EXAMPLES, 0.0, random.Random(0)) == EXAMPLES
