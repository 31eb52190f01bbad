"""How a text's tokens match a goal's: by hand, and beside a model's vectors."""

import numpy as np
import pytest
import torch

from bestofq.core.embedding import EmbedConfig, EmbedItem
from bestofq.models.embed import MATCHES, LocalEmbedder, matches
from bestofq.models.local import LocalModel


def test_matches_by_hand() -> None:
    east, north, both = torch.tensor([3.0, 0.0]), torch.tensor([0.0, 2.0]), torch.tensor([1.0, 1.0])
    found = matches(torch.stack([east, both]), torch.stack([5 * east, north, east]))
    near = 0.5**0.5  # the cosine of `both` with each of the others
    assert found.tolist() == pytest.approx(
        [(1 + near) / 2, near, 0.5, 0.0, 0.1, (1 + near + 1) / 3, 2 / 3, 0.2], abs=1e-6
    )
    assert matches(east[None], east[None]).tolist() == pytest.approx([1, 1, 1, 1, 0.1, 1, 1, 0.1], abs=1e-6)


@pytest.fixture
def embedder(weights: str) -> LocalEmbedder:
    model = LocalModel.load(weights, device="cpu", precision="float32")
    return LocalEmbedder(model, EmbedConfig(matches=True))


def test_the_matches_stand_behind_the_vector_of_the_text_alone(embedder: LocalEmbedder) -> None:
    goal = "buy a red hat"
    texts = ["click Red", "click Blue", "page: red hat, blue hat"]
    found = embedder.embed_all([EmbedItem(text=text, matched=(text, goal)) for text in texts])
    alone = LocalEmbedder(embedder._model).embed_all([EmbedItem(text=text) for text in texts])
    np.testing.assert_allclose(found[:, :-MATCHES], alone, rtol=1e-5, atol=1e-6)
    assert found[0, -MATCHES] > found[1, -MATCHES]  # more of it is in the goal, whatever its case
    assert found[2, -2] > found[0, -2] > found[1, -2]  # and more of the goal is in it
    assert embedder.spec.dim == found.shape[1]


def test_a_goal_is_not_matched_with_itself(embedder: LocalEmbedder) -> None:
    (found,) = embedder.embed_all([EmbedItem(text="buy a red hat")])
    assert not found[-MATCHES:].any()
