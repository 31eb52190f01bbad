"""An episode as the plain data that the page's script draws. Nothing here is markup: the script sets it as text.

Pages and pictures that many steps share are kept once, in `Shelf`, and named by their place in it.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

from pydantic import JsonValue

from bestofq.core.actions import Targeted, action_text
from bestofq.core.decision import Candidate, Episode, Step
from bestofq.core.errors import DataError
from bestofq.core.observation import Observation, Screenshot
from bestofq.store.records import EpisodeSummary
from bestofq.store.screenshots import Screenshots


@dataclass(slots=True)
class Shelf:
    """The pages and pictures of a report. Pictures past `budget` bytes are left out and counted in `left_out`."""

    screenshots: Screenshots
    budget: int
    folder: Path | None = None  # where pictures are put as files, none left out; None: they go into the page
    pages: list[JsonValue] = field(default_factory=list)
    pictures: list[JsonValue] = field(default_factory=list)
    left_out: int = 0
    lost: int = 0
    _page_at: dict[Observation, int] = field(default_factory=dict)
    _picture_at: dict[str, int | None] = field(default_factory=dict)

    def page(self, observation: Observation) -> int:
        if (at := self._page_at.get(observation)) is None:
            at = self._page_at[observation] = len(self.pages)
            self.pages.append(self._page(observation))
        return at

    def _page(self, observation: Observation) -> JsonValue:
        screenshot = observation.screenshot
        return {
            "url": observation.url,
            "title": observation.title,
            "text": observation.text,
            "error": observation.error,
            "notices": list(observation.notices),
            "picture": None if screenshot is None else self._picture(screenshot),
            "size": None if screenshot is None else [screenshot.width, screenshot.height],
        }

    def _picture(self, screenshot: Screenshot) -> int | None:
        if screenshot.sha256 not in self._picture_at:
            self._picture_at[screenshot.sha256] = self._load(screenshot)
        return self._picture_at[screenshot.sha256]

    def _load(self, screenshot: Screenshot) -> int | None:
        try:
            data = self.screenshots.load(screenshot).data
        except DataError:  # a store copied without its pictures still makes a report, which says so
            self.lost += 1
            return None
        if self.folder is not None:
            name = f"{screenshot.sha256}.{screenshot.media_type.partition('/')[2]}"
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(data)
            self.pictures.append(f"{self.folder.name}/{name}")
            return len(self.pictures) - 1
        if len(data) > self.budget:
            self.left_out += 1
            return None
        self.budget -= len(data)
        self.pictures.append(f"data:{screenshot.media_type};base64,{b64encode(data).decode()}")
        return len(self.pictures) - 1


def replay(episode: Episode, shelf: Shelf) -> dict[str, JsonValue]:
    """The episode's steps with all their candidates; its last page and picture too."""
    return {
        "goal": episode.task.goal,
        "reason": episode.verdict.reason,
        "commit": episode.provenance.commit,
        "seed": episode.provenance.seed,
        "steps": [_step(step, shelf) for step in episode.steps],
        "final": None if episode.final is None else shelf.page(episode.final),
    }


def choose(episodes: Sequence[EpisodeSummary], at_most: int) -> list[EpisodeSummary]:
    """The episodes to replay: whole tasks, spread evenly over all tasks, each with the first try of every agent."""
    if at_most < 1:
        return []
    tasks: dict[tuple[str, str], dict[str, EpisodeSummary]] = {}
    for episode in episodes:
        tasks.setdefault(episode.slot[:2], {}).setdefault(episode.agent, episode)
    agents = max((len(task) for task in tasks.values()), default=1)
    count = min(len(tasks), max(1, at_most // agents))
    every = [list(tasks.values())[i * len(tasks) // count] for i in range(count)] if count else []
    return [episode for task in every for episode in task.values()][:at_most]


def _step(step: Step, shelf: Shelf) -> dict[str, JsonValue]:
    decision = step.decision
    return {
        "page": shelf.page(step.observation),
        "chosen": decision.chosen,
        "explored": decision.explored,
        "value": _number(decision.state_value),
        "reward": step.reward,
        "candidates": [
            _candidate(candidate, score, step.observation)
            for candidate, score in zip(decision.candidates, decision.scores, strict=True)
        ],
    }


def _candidate(candidate: Candidate, score: float, page: Observation) -> dict[str, JsonValue]:
    return {
        "label": candidate.label,
        "command": action_text(candidate.action),
        "thought": candidate.thought,
        "note": candidate.note,
        "log_prob": _number(candidate.log_prob),
        "score": _number(score),
        "box": _box(candidate, page),
    }


def _box(candidate: Candidate, page: Observation) -> list[JsonValue] | None:
    """Where the action acts: [x, y, width, height] in CSS pixels of the viewport."""
    action = candidate.action
    if not isinstance(action, Targeted):
        return None
    if action.point is not None:
        return [action.point.x - 8, action.point.y - 8, 16, 16]
    box = next((element.box for element in page.elements if element.mark == action.mark), None)
    return None if box is None else list(box)


def _number(value: float | None) -> float | None:
    """JSON has no NaN and no infinity."""
    return None if value is None or not isfinite(value) else round(value, 6)
