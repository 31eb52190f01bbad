"""What a dialect is: for a model that continues one prompt, and for a chat endpoint."""

from collections.abc import Sequence
from typing import Protocol

from bestofq.core.decision import Candidate, State
from bestofq.core.language import JsonSchema, Reply
from bestofq.core.observation import Observation
from bestofq.core.picture import Picture


class Dialect(Protocol):
    """How a prompt asks for one action, and how its reply is read."""

    keeps_ids: bool  # whether a candidate keeps the tokens of its reply, because a policy is tuned on them

    def prompt(self, state: State) -> str: ...

    def parse(self, reply: str, observation: Observation) -> Candidate:
        """ReplyError when the reply is no action on this page."""
        ...


class ChatDialect(Protocol):
    """How messages ask a chat endpoint for n actions, or for one in each reply, and how its reply is read."""

    single: bool  # whether a reply can hold one action only
    repair: str  # how to reply, after a reply that could not be read

    @property
    def pointing(self) -> bool:
        """Whether elements are points on the picture of the page."""
        ...

    def schema(self, n: int, page: Observation) -> JsonSchema | None: ...

    def system(self, state: State, n: int, picture: Picture | None) -> str: ...

    def user(self, state: State, history: int, pictures: int) -> str: ...

    def read(self, reply: Reply, observation: Observation, n: int, picture: Picture | None) -> Sequence[Candidate]:
        """The first n candidates with distinct actions. ReplyError, in words for the model, when there is none."""
        ...
