"""A text site as the tools of a model that TRL trains: a class for `GRPOTrainer(environment_factory=…)` (TRL 1.16)."""

from collections.abc import Mapping
from typing import Any, ClassVar

from bestofq.core import actions as act
from bestofq.core.actions import Action
from bestofq.core.errors import DataError
from bestofq.core.observation import Split
from bestofq.core.protocols import Suite

from .text_site import TextSite

ENDED = "The episode has ended."
PROMPT = (
    "Do what the goal asks for on the website, by calling the tools. The number in brackets after an element is its "
    "mark.\n"
)


def site_tools(suite: Suite) -> "type[SiteTools]":
    """The class for the tasks of a suite: webshop, booking or quirks. ConfigError for any other."""
    TextSite(suite)  # refuses others
    return type(f"{suite.name.title()}Tools", (SiteTools,), {"suite": suite})


class SiteTools:
    """One instance plays one episode at a time. TRL makes every public method a tool, whose docstring the model reads;
    `reset` and `get_reward` it calls itself."""

    suite: ClassVar[Suite]

    def __init__(self) -> None:
        self._site = TextSite(self.suite)

    @classmethod
    def rows(cls, split: Split = "train", limit: int | None = None) -> list[dict[str, Any]]:
        """A dataset's rows, one a task, the first of them a fair sample. InputError where a split has none."""
        prompt = [{"role": "user", "content": PROMPT}]
        return [{"prompt": prompt, "task": task.id} for task in TextSite(cls.suite).tasks(split)[:limit]]

    def reset(self, task: str | None = None, **row: object) -> str:
        """Begin the task of a row; goal and first page. DataError where the row names no task of the suite."""
        if task is None:
            raise DataError(f"a row without `task`, with {', '.join(row) or 'nothing'}: make the dataset of `rows`")
        self._site.reset(self._site.find_task(task))
        return self._site.text

    def get_reward(self) -> float:
        """The site's reward in [0, 1]; 0 for an episode that was not ended, or ran out of steps."""
        return self._site.reward

    def click(self, mark: int) -> str:
        """Click an element of the page.

        Args:
            mark: The number in brackets after the element.

        Returns:
            The goal and the page afterwards.
        """
        return self._do({"kind": "click", "mark": mark})

    def write(self, mark: int, text: str, enter: bool = False) -> str:
        """Replace the text of a field, or choose an option of a list.

        Args:
            mark: The number in brackets after the field.
            text: What to write, or the option's name.
            enter: Whether to press Enter afterwards, which sends the form.

        Returns:
            The goal and the page afterwards.
        """
        return self._do({"kind": "write", "mark": mark, "text": text, "enter": enter})

    def go_back(self) -> str:
        """Go back to the page before.

        Returns:
            The goal and the page afterwards.
        """
        return self._do({"kind": "go_back"})

    def ask_user(self, question: str) -> str:
        """Ask the user for what the goal leaves open.

        Args:
            question: The question.

        Returns:
            The goal and the page, with the user's reply.
        """
        return self._do({"kind": "ask_user", "question": question})

    def answer(self, text: str) -> str:
        """End the episode with an answer to the user.

        Args:
            text: The answer.

        Returns:
            That the episode has ended.
        """
        return self._do({"kind": "answer", "text": text})

    def _do(self, given: Mapping[str, object]) -> str:
        action: Action = act.ACTION.validate_python(given)
        self._site.act(action)
        return ENDED if self._site.ended else self._site.text
