"""Episodes of a log into a store: each once, and what can be computed from them."""

import asyncio
import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

from bestofq.core.decision import DECIDED, Episode, Provenance
from bestofq.core.errors import BestOfQError, DataError
from bestofq.core.loading import call_object, object_name
from bestofq.core.observation import Split
from bestofq.interop import atif, browser_use, chat, jsonl, webvoyager
from bestofq.interop.atif import Exported
from bestofq.interop.files import Malformed, Parse, Reader, attempt, json_files, json_lines
from bestofq.store.codec import content_key
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store


def _with_steps(parse: Parse, record: Any, file: Path) -> Episode:
    """The episode of a record. ValueError without a step: JSON of another kind often looks like an empty log."""
    if not (found := parse(record, file)).steps and not isinstance(found, Exported):
        raise ValueError("it has no step of an agent")
    return found


READERS: Mapping[str, Reader] = {  # by the name of what they read
    "jsonl": partial(json_lines, parse=jsonl.episode),
    "browser-use": partial(json_files, parse=partial(_with_steps, browser_use.episode)),
    "atif": partial(json_files, parse=partial(_with_steps, atif.episode)),
    "chat": partial(json_lines, parse=partial(_with_steps, chat.conversation)),
    "inspect": partial(json_files, parse=partial(_with_steps, chat.sample), many="samples"),
    "webvoyager": partial(json_files, parse=partial(_with_steps, webvoyager.episode), pattern="interact_messages.json"),
}
_AT_ONCE = 128  # episodes that share transactions
_NAMED = 3  # malformed records that are named


@dataclass
class Imported:
    """What an import found. `new` counts what was added, the others all of the log, each episode once."""

    new: int = 0
    repeated: int = 0  # the same episode again in this log
    malformed: int = 0
    examples: list[Malformed] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    several: int = 0  # steps with several candidates
    goalless: int = 0

    @property
    def episodes(self) -> int:
        return self.outcomes.total()

    @property
    def decided(self) -> int:
        return sum(self.outcomes[outcome] for outcome in DECIDED)

    def refuse(self, one: Malformed) -> None:
        self.malformed += 1
        self.examples += [one] if len(self.examples) < _NAMED else []

    def count(self, episode: Episode) -> None:
        self.outcomes[episode.verdict.outcome] += 1
        self.steps += len(episode.steps)
        self.goalless += not episode.task.goal
        self.several += sum(len(step.decision.candidates) > 1 for step in episode.steps)


def check_log(kind: str, path: Path) -> None:
    """ConfigError for an unknown kind of log, DataError for a missing file."""
    if kind not in READERS:
        object_name("reader", kind, READERS)
    if not path.exists():
        raise DataError(f"there is no file {path}: give the log's file, or a folder with its files")


async def import_log(
    store: Store,
    kind: str,
    path: Path,
    *,
    run: str,
    split: Split | None,
    made: Provenance,
    on_record: Callable[[], None] = lambda: None,
) -> Imported:
    """Add the episodes of a log to a run, those it has already left out. `split` None: train, or what an episode that
    we exported has. DataError if a folder has no such files, or if the run was begun by other means."""
    found, records = Imported(), read_log(kind, path)
    some = list(islice(records, _AT_ONCE))  # before the run begins: there may be nothing to read
    await store.begin_run(run, {"importer": kind, "split": split or "train"}, made)
    known = {one.id: one for one in store.summaries(run=run, status=None)}
    repeats = defaultdict[tuple[str, str, str], set[int]](set)
    for one in known.values():
        repeats[_key(one)].add(one.repeat)
    judged = store.verdicts(run=run)
    seen: dict[str, bytes] = {}  # what this log's episodes hold

    def new(some: list[Episode | Malformed]) -> Iterator[tuple[Episode, int]]:
        for one in some:
            on_record()
            if isinstance(one, Malformed):
                found.refuse(one)
                continue
            name = hashlib.sha256("\x1f".join((run, kind, one.id)).encode()).hexdigest()[:16]
            key, content = (one.agent, one.task.suite, one.task.id), content_key(one.model_dump_json().encode())
            stored = known.get(name)
            if (stored and _key(stored) != key) or seen.get(name, content) != content:
                problem = "another episode has the same id: give each its own"
            else:
                problem = _describe_change(one, stored, judged=name in judged.get(stored.judge, ())) if stored else ""
            if problem:
                found.refuse(Malformed(f"id {one.id}", problem))
                continue
            if name in seen:
                found.repeated += 1
                continue
            seen[name] = content
            found.count(one)
            if stored is None:
                had = repeats[key]
                own = one.repeat if isinstance(one, Exported) else None
                repeat = next(n for n in chain([own], count(len(had))) if n is not None and n not in had)
                had.add(repeat)
                yield _of_run(one, name, run, split, made), repeat

    while some:
        found.new += len(await asyncio.gather(*(store.add_episode(*one) for one in new(some))))
        some = list(islice(records, _AT_ONCE))
    return found


def _key(stored: EpisodeSummary) -> tuple[str, str, str]:
    return stored.agent, stored.suite, stored.task


def _describe_change(episode: Episode, stored: EpisodeSummary, *, judged: bool) -> str:
    """Say how the episode has changed in its log since it was imported; empty if it has not. A stored episode that
    was `judged` since has another verdict by that, unless the log now has one that no judge may replace."""
    then, now = stored.verdict, episode.verdict
    same = (then.outcome, then.reward) == (now.outcome, now.reward)
    if stored.steps == len(episode.steps) and (same or (judged and (now.judge or now.outcome == "unjudged"))):
        return ""
    was, has = f"{stored.steps}, {then.outcome}", f"{len(episode.steps)}, {now.outcome}"
    return f"it has changed since it was imported (steps: {was}; now {has}): import this log into another --run"


def read_log(kind: str, path: Path) -> Iterator[Episode | Malformed]:
    """The log's records as its reader gives them; mappings are records of `jsonl`. An episode without an id is named by
    its content; of equal ones each has its own. DataError, with the record that it was at, if a reader of the user's
    own fails."""
    seen, number = Counter[str](), 0
    own = "" if kind in READERS else object_name("reader", kind, READERS)
    try:
        for number, one in enumerate(call_object(own, path) if own else READERS[kind](path), 1):
            where = f"record {number}"
            if isinstance(one, Mapping):
                one = attempt(where, jsonl.episode, one, path)
            body = attempt(where, one.model_dump_json) if isinstance(one, Episode) else ""
            if isinstance(body, Malformed):  # half a character, which no store can keep
                one = body
            elif isinstance(one, Episode) and not one.id:
                content = hashlib.sha256(body.encode()).hexdigest()[:24]
                seen[content] += 1
                one = one.model_copy(update={"id": f"{content}-{seen[content]}"})
            if not isinstance(one, Episode | Malformed):
                one = Malformed(where, f"it is {type(one).__name__}: a reader gives mappings or bq.Episode")
            yield one
    except BestOfQError:
        raise
    except Exception as error:  # whatever it is
        if not own:
            raise
        said = f"{type(error).__name__}: {error}"
        at = f"record {number + 1} of {path}"
        raise DataError(f"the reader {own} fails at {at} ({said}): correct it there") from error


def _of_run(episode: Episode, name: str, run: str, split: Split | None, made: Provenance) -> Episode:
    provenance = made.model_copy(update={"log": episode.provenance.log, "started_at": episode.provenance.started_at})
    own = episode.task.split if isinstance(episode, Exported) else "train"
    task = episode.task.model_copy(update={"split": split or own})
    return episode.model_copy(update={"id": name, "run": run, "task": task, "provenance": provenance})
