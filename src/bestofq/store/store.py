"""What was done: runs, episodes and their steps, committed one by one and read back as core models."""

import asyncio
import hashlib
import json
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

from pydantic import JsonValue
from sqlalchemy import Connection, Engine, insert, select
from sqlalchemy.exc import IntegrityError

from bestofq.core.decision import Episode, Provenance, Step, Verdict
from bestofq.core.embedding import EmbedSpec
from bestofq.core.errors import DataError, InputError, SupersededError
from bestofq.core.loading import extra
from bestofq.core.observation import Observation, Task
from bestofq.core.secrets import hidden, hide, hide_json
from bestofq.store import attempts, claim, database, records, tally
from bestofq.store.catalogue import Catalogue
from bestofq.store.claim import Claim
from bestofq.store.codec import content_key, pack
from bestofq.store.configuration import Owned, going_on
from bestofq.store.database import rows_of, verify_rows
from bestofq.store.files import Files, Folder, Screenshots, open_files
from bestofq.store.location import Location
from bestofq.store.records import EpisodeFilter, EpisodeKey, EpisodeSummary, RunRecord
from bestofq.store.schema import EPISODES, FACTS, PAGES, RUNS, STEPS, TASKS, VERDICTS, Status, add_checksum
from bestofq.store.tally import Tally
from bestofq.store.trees import Trees
from bestofq.store.vectors import VectorCache
from bestofq.store.writer import Writer

_EPISODES_A_QUERY = 50


class Which(TypedDict, total=False):
    """Which episodes; None: any. Without a `status`, the finished ones."""

    run: str | None
    runs: Sequence[str] | None
    agent: str | None
    suite: str | None
    split: str | None
    status: Status | None


class Store(AbstractContextManager["Store"]):
    """Stored episodes. Any number of processes read; one writes to a folder, any number to PostgreSQL.

    Writing methods are coroutines that return once their rows are committed. Reading methods are plain calls.
    """

    def __init__(self, engine: Engine, files: Files, name: object, opened: ExitStack, claim: Claim | None) -> None:
        self.screenshots = Screenshots(files, name)
        self._engine = engine
        self._opened = opened
        self._writer = Writer(engine, claim)
        self._pages = records.make_page_reader()

    @classmethod
    def open(cls, where: Location | Path | str, *, files: Path | str | None = None, read_only: bool = False) -> Self:
        """Open the folder `where`, made when missing, or a database's URL with `files`, a folder or `s3://bucket/prefix`
        for the pictures. DataError when another process writes the folder, on another schema version, or read-only
        without a store."""
        place = Location.of(where, files)
        with ExitStack() as opened:
            kept = open_files(place.where_files_are)
            if read_only:
                place.check_exists()
            elif isinstance(kept, Folder):
                kept.root.mkdir(parents=True, exist_ok=True)
            engine = database.connect(database.url_of(place, read_only=read_only), read_only=read_only)
            opened.callback(engine.dispose)
            database.prepare(engine, read_only=read_only)
            database.check_lists(engine)
            held = None if read_only else opened.enter_context(claim.claim_writer(engine))
            return cls(engine, kept, place, opened.pop_all(), held)

    def close(self) -> None:
        """Commit what waits, and let another process write."""
        self._writer.close()
        self._opened.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    def vectors(self, spec: EmbedSpec) -> VectorCache:
        return VectorCache(self._engine, self._writer, spec)

    @property
    def trees(self) -> Trees:
        return Trees(self._engine, self._writer)

    @property
    def is_written(self) -> bool:
        """Whether a process writes it (to a folder: one of this machine)."""
        return claim.is_written(self._engine)

    @property
    def catalogue(self) -> Catalogue:
        return Catalogue(self._engine, self._pages)

    # ---- writing

    async def begin_run(
        self, name: str, config: Mapping[str, JsonValue], provenance: Provenance, *, agents: Owned | None = None
    ) -> None:
        """Begin or continue a run. DataError if it was begun with another configuration, InputError if it has no name.

        `agents`: settings of agents by their names, and of searches for trees. The first settings of each are kept, an
        agent's from its first episode on.
        """
        if not name.strip() or not name.isprintable():
            raise InputError(f"--run {name!r} is no name: give letters, digits and signs on one line")
        config, agents = hidden(config), hidden(agents or {})

        def begin(connection: Connection) -> None:
            row = {"name": name, "provenance": hide_json(provenance.model_dump_json()), **_config_row(config)}
            database.insert_new(connection, RUNS, [add_checksum(RUNS, row)])
            before, *_ = *database.lock_rows(connection, RUNS, RUNS.c.name == name), row
            played = {*connection.scalars(select(EPISODES.c.agent).distinct().where(EPISODES.c.run == name))}
            after = _config_row(going_on(name, json.loads(before["config"]), config, agents, played))
            if after["config"] != before["config"]:
                database.replace(connection, RUNS, before | after)

        await self._writer.commit(begin)

    async def keep_note(self, name: str, words: str | None) -> None:
        """Keep a text under a name, until it is replaced by another or by None."""

        def note(connection: Connection) -> None:
            if words is None:
                connection.execute(FACTS.delete().where(FACTS.c.name == f"note {name}"))
            else:
                database.upsert(connection, FACTS, {"name": f"note {name}", "value": hide(words)})

        await self._writer.commit(note)

    def note(self, name: str) -> str | None:
        """The text that was last kept under a name."""
        return database.scalar_of(self._engine, select(FACTS.c.value).where(FACTS.c.name == f"note {name}"))

    @property
    def has_notes(self) -> bool:
        return bool(rows_of(self._engine, select(FACTS.c.name).where(FACTS.c.name.startswith("note "))))

    async def begin_episode(self, run: str, agent: str, task: Task, repeat: int, provenance: Provenance) -> str:
        """Begin the next attempt at a slot and return its id. An attempt that this or a dead process left running is
        interrupted. DataError without such a run. SupersededError if the slot is finished or another process plays it.
        """
        episode, body = secrets.token_hex(8), pack(task)
        row = {"id": episode, "repeat": repeat, **_episode_row(run, agent, task, body, provenance)}

        def begin(connection: Connection) -> None:
            if connection.scalar(select(RUNS.c.name).where(RUNS.c.name == run)) is None:
                raise DataError(f"there is no run {run!r}: begin it first")
            database.insert_new(connection, TASKS, [{"key": row["task_key"], "body": body}])
            attempts.begin(connection, row, self.writer)

        await self._writer.commit(begin)
        return episode

    async def add_episode(self, episode: Episode, repeat: int) -> None:
        """Commit a finished episode whole, under its own id, in a run that was begun.

        DataError when the store has an episode of that id, or the run a finished one of its key.
        """
        task = pack(episode.task)
        row = {
            "id": episode.id,
            "repeat": repeat,
            **_verdict_row(episode.verdict),
            "steps": len(episode.steps),
            "checkpoint": episode.steps[0].decision.checkpoint if episode.steps else None,
            **_episode_row(episode.run, episode.agent, episode.task, task, episode.provenance),
        }

        def add(connection: Connection) -> None:
            database.insert_new(connection, TASKS, [{"key": row["task_key"], "body": task}])
            final = {} if episode.final is None else {"final_key": self._keep_page(connection, episode.final)}
            try:
                connection.execute(insert(EPISODES), add_checksum(EPISODES, row | final))
            except IntegrityError as error:
                raise DataError(f"episode {episode.id} is in the store already, or its run was not begun") from error
            for step in episode.steps:
                page_key = self._keep_page(connection, step.observation)
                connection.execute(insert(STEPS), _step_row(episode.id, step, page_key))

        await self.keep_pictures(*(step.observation for step in episode.steps), episode.final)
        await self._writer.commit(add)

    async def append_step(self, episode: str, step: Step) -> None:
        """Commit a step with its observation, its picture, and ALL candidates and scores of its decision.
        SupersededError if the episode is not running, or another process plays it now."""
        page = pack(step.observation)
        row = _step_row(episode, step, content_key(page))
        await self.keep_pictures(step.observation)
        await self._writer.commit(partial(attempts.append, row=row, page=page, owner=self.writer), one_statement=True)

    async def finish_episode(self, episode: str, verdict: Verdict, final: Observation | None) -> None:
        """Commit the verdict: the episode is `finished`, or `cut` if the outcome is infra_error. SupersededError if it
        is not running, another process plays it now, or its slot is finished already."""

        def finish(connection: Connection) -> None:
            own = (EPISODES.c.id == episode, EPISODES.c.owner == self.writer)
            before, *_ = *database.lock_rows(connection, EPISODES, *own), {"verdict": None, "status": None}
            if before["verdict"] == _json(verdict):
                return  # it was committed, and the answer was lost
            if before["status"] != "running":
                raise attempts.superseded_error(episode)
            final_key = None if final is None else self._keep_page(connection, final)
            end = {**_verdict_row(verdict), "final_key": final_key, "ended_at": _now()}
            try:
                database.replace(connection, EPISODES, before | end | attempts.summarize_steps(connection, episode))
            except IntegrityError as error:
                raise SupersededError(f"episode {episode} repeats a task that is finished already") from error

        await self.keep_pictures(final)
        await self._writer.commit(finish)

    async def add_verdict(self, episode: str, verdict: Verdict, *, adopt: bool) -> None:
        """Keep a judge's verdict on a finished episode, instead of its earlier one. With `adopt` it is in force too.
        DataError if the episode is not finished, or the environment's verdict would be lost."""

        def add(connection: Connection) -> None:
            finished = (EPISODES.c.id == episode, EPISODES.c.status == "finished")
            if not (rows := database.lock_rows(connection, EPISODES, *finished)):
                raise DataError(f"episode {episode} is not finished: there is nothing to judge yet")
            before = rows[0]
            in_force = Verdict.model_validate_json(before["verdict"])
            if adopt and not in_force.judge and in_force.outcome != "unjudged":
                raise DataError(f"episode {episode} has the verdict of its environment: no judge's takes its place")
            row = {"episode": episode, "judge": verdict.judge, "verdict": _json(verdict), "judged_at": _now()}
            database.upsert(connection, VERDICTS, add_checksum(VERDICTS, row))
            if adopt:
                database.replace(connection, EPISODES, before | _verdict_row(verdict) | {"status": "finished"})

        await self._writer.commit(add)

    async def take_over(self, run: str, agent: str, *, only: Collection[str] | None = None) -> list[EpisodeSummary]:
        """Make this process play what it left running, and what no living process plays. `only`: of these ids."""
        ids = await self._writer.commit(partial(attempts.take_over, run=run, agent=agent, owner=self.writer, only=only))
        return database.read(self._engine, lambda connection: records.summaries_of(connection, ids))

    async def interrupt(self, run: str, agent: str, *, only: Collection[str] | None = None) -> int:
        """Mark the same episodes as `interrupted` and return their number. Their steps stay."""
        job = partial(attempts.take_over, run=run, agent=agent, owner=self.writer, only=only, end=True)
        return len(await self._writer.commit(job))

    @property
    def writer(self) -> str:
        """This process's name as a writer, never used again; empty if it only reads."""
        return self._writer.token

    # ---- reading

    def runs(self) -> list[RunRecord]:
        """All runs, by name."""
        return [
            RunRecord(row.name, json.loads(row.config), row.config_hash, Provenance.model_validate_json(row.provenance))
            for row in verify_rows(self._engine, RUNS, rows_of(self._engine, select(RUNS).order_by(RUNS.c.name)))
        ]

    def load_finished_keys(self, run: str, agent: str) -> set[EpisodeKey]:
        """Return the keys of finished episodes: they need not be played again."""
        return {summary.key for summary in self.summaries(run=run, agent=agent)}

    def summaries(self, **which: Unpack[Which]) -> list[EpisodeSummary]:
        """Finished episodes, or those of a `status`, without their steps, in the order of `episodes`."""
        query = records.filter_query(records.summary_rows(), _filter(which))
        return database.read(self._engine, lambda connection: records.summaries(connection, query))

    def frame(self, **which: Unpack[Which]) -> Any:
        """The same as a `pyarrow.Table`, which `.to_pandas()` and `polars.from_arrow` read. It needs the extra
        `export`."""
        found = self.summaries(**which)
        return extra("pyarrow").table({name: [getattr(e, name) for e in found] for name in EpisodeSummary._fields})

    def tallies(self, runs: Collection[str], *, suite: str | None = None, split: str | None = None) -> list[Tally]:
        """The ended episodes of these runs, grouped by run, agent, task, Q-function and status."""
        return tally.tallies(self._engine, runs, suite=suite, split=split)

    def episodes(self, **which: Unpack[Which]) -> Iterator[Episode]:
        """Finished episodes, or those of a `status`, by run, agent, suite, task, repeat: an order that does not depend
        on which one ended first.

        Episodes without a verdict (interrupted, running) come with outcome infra_error. Pages that several steps share
        are one object. Pictures come without their bytes: `screenshots.load` reads them.
        """
        ids = [row.id for row in rows_of(self._engine, records.filter_query(select(EPISODES.c.id), _filter(which)))]
        for start in range(0, len(ids), _EPISODES_A_QUERY):
            yield from self._episodes(ids[start : start + _EPISODES_A_QUERY])

    def verdicts(
        self, *, run: str | None = None, agent: str | None = None, judge: str | None = None
    ) -> dict[str, dict[str, Verdict]]:
        """Return the judges' verdicts on finished episodes, in force or not: by judge, then by episode id."""
        where = EpisodeFilter(run=run, agent=agent, status="finished")
        query = records.filter_query(select(VERDICTS).join(EPISODES, EPISODES.c.id == VERDICTS.c.episode), where)
        if judge is not None:
            query = query.where(VERDICTS.c.judge == judge)
        verdicts: dict[str, dict[str, Verdict]] = {}
        for row in verify_rows(self._engine, VERDICTS, rows_of(self._engine, query)):
            verdicts.setdefault(row.judge, {})[row.episode] = Verdict.model_validate_json(row.verdict)
        return verdicts

    def episode(self, episode: str) -> Episode:
        """One episode by its id, whatever its status. DataError when there is none."""
        if episodes := self._episodes([episode]):
            return episodes[0]
        raise DataError(f"there is no episode {episode!r} in {database.name_of(self._engine)}")

    def _episodes(self, ids: Sequence[str]) -> list[Episode]:
        return database.read(self._engine, lambda connection: records.episodes(connection, ids, self._pages))

    async def keep_pictures(self, *pages: Observation | None) -> None:
        """On disk before the rows that name them; those of many episodes at once."""
        for page in pages:
            if page is not None and page.screenshot is not None:
                await asyncio.to_thread(self.screenshots.save, page.screenshot)

    def _keep_page(self, connection: Connection, page: Observation) -> bytes:
        key = content_key(body := pack(page))
        database.insert_new(connection, PAGES, [{"key": key, "body": body}])
        return key


def _step_row(episode: str, step: Step, page_key: bytes) -> dict[str, object]:
    columns = {name: getattr(step, name) for name in ("reward", "terminated", "truncated")}
    key = {"episode": episode, "number": step.index, "page_key": page_key}
    return add_checksum(STEPS, key | columns | {"decision": pack(step.decision)})


def _filter(which: Which) -> EpisodeFilter:
    return EpisodeFilter(**({"status": "finished"} | which))


def _config_row(config: Mapping[str, JsonValue]) -> dict[str, str]:
    body = json.dumps(config, sort_keys=True)
    return {"config": body, "config_hash": hashlib.sha256(body.encode()).hexdigest()[:16]}


def _episode_row(run: str, agent: str, task: Task, body: bytes, provenance: Provenance) -> dict[str, object]:
    slot = {"run": run, "agent": agent, "suite": task.suite, "split": task.split, "task": task.id}
    source = {"provenance": hide_json(provenance.model_dump_json()), "started_at": provenance.started_at or _now()}
    return {**slot, **source, "task_key": content_key(body)}


def _verdict_row(verdict: Verdict) -> dict[str, str]:
    """What an episode's row says of it from its verdict on."""
    status: Status = "cut" if verdict.outcome == "infra_error" else "finished"
    return {"status": status, "verdict": _json(verdict), "outcome": verdict.outcome}


def _json(verdict: Verdict) -> str:
    return hide_json(verdict.model_dump_json(exclude_defaults=True))


def _now() -> str:
    return datetime.now(UTC).isoformat()
