"""How a text (and picture) became a vector. The spec's hash travels with each vector and each checkpoint."""

import hashlib
from typing import Literal

from pydantic import Field

from bestofq.core.frozen import FrozenModel
from bestofq.core.observation import Screenshot

Pooling = Literal["mean", "last"]
Tokens = Literal["own", "all"]
Context = Literal["alone", "review"]
ActionText = Literal["label", "reasoning"]
StateText = Literal["page", "history"]

PIXELS = 1280 * 28 * 28  # at most 1280 tokens a picture; the paper gives no number, this is transformers' own
PIXELS_LEAST = 56 * 56  # smaller pictures are enlarged


class EmbedSettings(FrozenModel):
    """The settings `model.embed`: how a model makes vectors."""

    layer: int = Field(default=-1, description="hidden layer; the last in A.3")
    pooling: Pooling = Field(default="mean", description="mean over tokens (A.3), or the last")
    context: Context = Field(
        default="alone", description="texts alone (A.3); review: an action as the model's own review of it"
    )
    matches: bool = Field(
        default=False, description="with how the words of states and actions match the goal's; not in the paper"
    )
    action: ActionText = Field(
        default="label", description="of an action in words: label, or reasoning, its thought too (3.1)"
    )
    state: StateText = Field(
        default="page", description="of a state in words: page, or history alone, for an embedder that sees (3.1)"
    )
    pixels: int = Field(default=PIXELS, ge=0, description="largest picture embedded; 0: texts only")


class EmbedConfig(EmbedSettings):
    """What an embedder is made from: the settings, and the hash of the prompts that make its texts."""

    prompt: str = ""


DEFAULTS = EmbedConfig()


class EmbedSpec(FrozenModel):
    """Everything that a vector depends on except its content."""

    model: str = Field(description="name of the frozen model")
    revision: str = Field(description="hash of its weights or hub revision")
    prompt: str = Field(default="", description="hash of the templates that make texts of states, actions, tasks")
    pixels: int = Field(default=0, description="largest picture area it sees; 0: text only")
    pixels_least: int = Field(default=0, description="smallest picture area it sees, smaller ones are enlarged")
    layer: int = Field(default=-1, description="hidden layer read; -1 the last (Best-of-Q, A.3)")
    pooling: Pooling = Field(default="mean", description="the mean over the pooled tokens, or the last of them alone")
    tokens: Tokens = Field(
        default="all",
        description="that are pooled: a text's own (A.3), or all that were read, a start token and a picture's marks "
        "among them",
    )
    context: Context = Field(default="alone", description="what texts are embedded in: see `EmbeddingTexts`")
    matches: bool = Field(default=False, description="whether numbers on how its tokens match a goal's follow it")
    action: ActionText = Field(default="label", description="what is read of an action: see `EmbeddingTexts`")
    state: StateText = Field(default="page", description="what is read of a state: see `EmbeddingTexts`")
    dim: int

    @property
    def hash(self) -> str:
        """16 hex digits."""
        younger = {"pixels_least": 0, "tokens": "all", "matches": False, "action": "label", "state": "page"}
        absent = {name for name, default in younger.items() if getattr(self, name) == default}  # keeps older hashes
        return hashlib.sha256(self.model_dump_json(exclude=absent).encode()).hexdigest()[:16]


class EmbedItem(FrozenModel):
    """One thing to embed, its pictures before its text.

    If `answer` is not 0, `text` is a prompt, and the model's own greedy answer is pooled: a line of at most so many
    tokens. `matched`: words and a goal; numbers on how their tokens match follow the vector.
    """

    text: str
    answer: int = Field(default=0, ge=0)
    matched: tuple[str, str] | None = None
    screenshots: tuple[Screenshot, ...] = ()

    @property
    def key(self) -> str:
        """Content hash, 32 hex digits."""
        answer, pictures = [str(self.answer)] if self.answer else [], [shot.sha256 for shot in self.screenshots]
        parts = ["", self.text, *answer, *(self.matched or ()), *pictures]
        return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:32]
