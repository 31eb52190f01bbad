"""A Q-function's folder: what it was learned from, whether it is the one that is wanted, and the training itself."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import JsonValue
from rich.console import Console

from bestofq.config.models import Models, check_embedder
from bestofq.core.decision import Episode
from bestofq.core.embedding import EmbedItem, EmbedSettings, EmbedSpec
from bestofq.core.errors import ConfigError, DataError, InputError
from bestofq.core.identity import Difference, as_set, differences, identity_of, key_of
from bestofq.core.transitions import Floats, Transitions
from bestofq.envs.splits import uniform
from bestofq.learning.checkpoint import (
    CARD,
    EpisodeSet,
    export_value,
    load_learner,
    load_value,
    read_card,
    save_learner,
)
from bestofq.learning.config import IQLConfig
from bestofq.learning.distributed import choose_device, process_group
from bestofq.learning.iql import IQL
from bestofq.learning.networks import parameter_counts
from bestofq.learning.tracking import Log, discard_log
from bestofq.learning.training import train_own, train_stoppable
from bestofq.learning.value import ValueModel
from bestofq.models.cached_embedder import VectorStore
from bestofq.recipes.run_config import endpoint_of
from bestofq.rollouts.progress import bar
from bestofq.rollouts.transitions import tabulate
from bestofq.store.records import EpisodeKey, EpisodeSummary
from bestofq.store.store import Store

FOLDS = 5

TRAINING = ".training"
"""In a Q-function's folder: the last checkpoint of its unfinished training."""
MEASURED_SECONDS = 3.0
"""Of training, before its duration is estimated."""


class TrainingIdentity(NamedTuple):
    """All that a Q-function depends on. `episodes` is None where they are unknown, as of one that ships."""

    config: IQLConfig
    embed: EmbedSpec
    train_n: int
    episodes: EpisodeSet | None

    @classmethod
    def of(
        cls, models: Models, episodes: Iterable[EpisodeSummary], config: IQLConfig | None = None
    ) -> "TrainingIdentity":
        """Of the decided episodes among these that have a step. `config` None: as the settings say."""
        episodes = [*episodes]
        taught = [(one.id, one.outcome, one.reward, one.steps) for one in episodes if one.decided and one.steps]
        fingerprint = hashlib.sha256(json.dumps(taught).encode()).hexdigest()[:16]
        tasks = tuple(sorted({task_mark(one.key) for one in episodes if one.decided and one.steps}))
        known = EpisodeSet(count=len(taught), fingerprint=fingerprint, tasks=tasks)
        return cls(config or models.settings.iql, models.embedder.spec, models.settings.n_candidates, known)

    @classmethod
    def read(cls, folder: Path) -> "TrainingIdentity | None":
        """Of the checkpoint in a folder; None where there is none. CheckpointError."""
        if not (folder / CARD).exists():
            return None
        card = read_card(folder)
        return cls(card.config, card.embed, card.train_n, card.episodes)

    @property
    def identity(self) -> dict[str, JsonValue]:
        """By the settings' own names, as far as there are settings for it."""
        embed: dict[str, JsonValue] = self.embed.model_dump(mode="json")
        ways = {name: embed.pop(name) for name in EmbedSettings.model_fields}
        return {
            "iql": identity_of(self.config.at(self.embed.dim)),
            "n_candidates": self.train_n,
            "model": {"embed": ways, "embedder": embed},
            "episodes": None if self.episodes is None else identity_of(self.episodes),
        }

    def differences(self, out: Path, *, episodes: bool = True) -> list[Difference]:
        """Where the Q-function in `out`, or its unfinished training, is of another origin; `episodes`: in them, too."""
        there = TrainingIdentity.read(out) or TrainingIdentity.read(out / TRAINING)
        found = [] if there is None else differences(there.identity, self.identity)
        return [one for one in found if episodes or not _concerns_episodes(one)]

    def is_of(self, folder: Path) -> bool:
        """Whether the checkpoint in a folder is of this origin."""
        there = TrainingIdentity.read(folder)
        return there is not None and not differences(there.identity, self.identity)


def task_mark(key: EpisodeKey) -> str:
    """Names a task in a checkpoint: 8 hex digits over its suite and id."""
    return hashlib.sha256("/".join(key[:2]).encode()).hexdigest()[:8]


Lesson = tuple[TrainingIdentity, Transitions]
"""What Q and V learn from, after all that they then depend on."""


def lesson(
    origin: TrainingIdentity, read: Callable[[], Transitions], out: Path, console: Console, *, again: bool = False
) -> Lesson | None:
    """What the Q-function of this origin is to learn from, as `read` gives it; None where it lies in `out`. DataError
    where `out` holds another one, finished or not; with `again` that is replaced."""
    unfinished = out / TRAINING
    if again:
        if not origin.is_of(unfinished):
            shutil.rmtree(unfinished, ignore_errors=True)
    elif found := origin.differences(out):
        raise DataError(
            f"{out} holds a Q-function trained with {describe_differences(found)}: "
            "give --out another folder, or --again to train again in this one"
        )
    elif (out / CARD).exists():
        if origin.is_of(unfinished):  # killed between the last checkpoint and the end
            shutil.rmtree(unfinished)
        console.print(f"{out} holds the Q-function of these settings and episodes: it is used as it is")
        return None
    return origin, read()


def describe_differences(found: Sequence[Difference]) -> str:
    """Each setting that differs by its name, with both values; then the episodes."""
    settings = [one for one in found if not _concerns_episodes(one)]
    said = [f"{name}={as_set(before)} (now {as_set(now)})" for name, before, now in settings[:3]]
    said += [f"{len(settings) - 3} more settings"] if len(settings) > 3 else []
    by_name = {one.name: one for one in found}
    if count := by_name.get("episodes.count"):
        said.append(f"{'unknown' if count.before is None else count.before} episodes (now {count.now})")
    elif mark := by_name.get("episodes.fingerprint"):
        said.append(f"the episodes {mark.before} (now {mark.now}: as many, but others or with other verdicts)")
    return ", ".join(said)


def _concerns_episodes(difference: Difference) -> bool:
    return difference.name.partition(".")[0] == "episodes"


def learn(
    read: Callable[[], Lesson | None], config: IQLConfig, out: Path, console: Console, log: Log = discard_log
) -> None:
    """Q and V by IQL, kept in `out`; nothing where `read` gives nothing. Under torchrun all processes call this, and
    the first reads, prints, writes and logs. The same call continues from the last checkpoint."""
    found: list[Lesson] = []

    def of_first() -> Transitions | None:
        found.extend(one for one in [read()] if one is not None)
        return found[0][1] if found else None

    with process_group(choose_device(config.device)) as group:
        own = config.learner != "iql"
        if own and group.size > 1:
            raise ConfigError(f"iql.learner={config.learner} learns in one process: leave torchrun out")
        data = group.share(of_first)
        if data is None:
            return
        if not found:
            train_stoppable(data, config, group=group)
            return
        (origin, _), unfinished = found[0], out / TRAINING
        kept: dict[str, Any] = {"embed": origin.embed, "train_n": origin.train_n, "episodes": origin.episodes}
        resumable = not own and (unfinished / CARD).exists()
        begun = load_learner(unfinished, embed=origin.embed, device=config.device) if resumable else None
        with training_progress(config, data, console, at=begun.step if begun else 0) as progress:
            if own:
                iql = train_own(data, config)
            else:
                save = partial(save_learner, unfinished, **kept)
                iql = train_stoppable(
                    data,
                    config,
                    begun=begun,
                    save=save,
                    on_step=progress,
                    on_row=lambda row: log(row.step, row.model_dump(exclude={"step"})),
                    group=group,
                )
    export_value(out, iql, **kept)
    shutil.rmtree(unfinished, ignore_errors=True)
    console.print(f"Q and V learned from {len(data):,} transitions: {out}")


def episodes_of(store: Store, learned: Sequence[EpisodeSummary]) -> Iterator[Episode]:
    """These episodes with their steps, in the store's order."""
    wanted = {episode.id for episode in learned}
    stored = (one for run in dict.fromkeys(episode.run for episode in learned) for one in store.episodes(run=run))
    return (one for one in stored if one.id in wanted)


def transitions_of(
    models: Models, episodes: Iterable[Episode], store: Store, console: Console, vectors: VectorStore | None = None
) -> Transitions:
    """The training set of episodes; vectors are kept in `vectors`, None: in `store`. InputError without a success."""
    table = tabulate(episodes, models.texts, others=models.settings.iql.others)
    if not table.rows.reward.any():
        raise InputError(
            "none of the episodes succeeded, so there is nothing to learn a value from: "
            "collect more (`bestofq collect`), or use a stronger model"
        )
    kept = store.vectors(models.embedder.spec) if vectors is None else vectors
    return table.transitions(embed_items(models, table.items, store, kept, console))


def embed_items(
    models: Models, items: Sequence[EmbedItem], store: Store, vectors: VectorStore, console: Console
) -> Floats:
    """Vectors [B, D] of items of `store`'s episodes; each distinct one is embedded once, for good in `vectors`."""
    with bar(console) as shown:
        row = shown.add_task("embedding", total=len(items))
        return models.embedder.embed_all(
            items, vectors, progress=lambda done: shown.update(row, completed=done), pictures=store.screenshots.load
        )


@contextmanager
def training_progress(
    config: IQLConfig, data: Transitions, console: Console, *, at: int = 0, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[IQL], None]]:
    """Says what is trained, and after the first steps how long it takes. Gives what to call after each step."""
    q, v = parameter_counts(data.dim, config.network)
    hidden = "-".join(map(str, config.network.widths(data.dim)))
    console.print(
        f"Q ({q:,} parameters) and V ({v:,}), hidden layers {hidden}, learn from {len(data):,} transitions with "
        f"vectors of {data.dim:,}: {config.steps:,} steps of {config.batch_size} on {choose_device(config.device)}"
    )
    if at:
        console.print(f"the training continues after step {at:,}")
    first: tuple[int, float] | None = None  # when the first step had been taken, which takes longer
    estimated = False
    with bar(console) as shown:
        task = shown.add_task("training Q and V", total=config.steps, completed=at)

        def after(iql: IQL) -> None:
            nonlocal first, estimated
            shown.update(task, completed=iql.step)
            now = clock()
            if first is None:
                first = iql.step, now
            elif not estimated and now - first[1] >= MEASURED_SECONDS:
                estimated = True
                each = (now - first[1]) / (iql.step - first[0])
                left = each * (config.steps - iql.step)
                console.print(f"{1000 * each:,.3g} ms a step: about {_duration(left)} left")

        yield after


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def transitions(models: Models, store: Store, learned: Sequence[EpisodeSummary], console: Console) -> Transitions:
    """The training set of these episodes. ConfigError where an endpoint proposed and no model is named that embeds."""
    runs = {episode.run for episode in learned}
    for record in store.runs():
        if record.name in runs and (proposer := endpoint_of(record.config)):
            check_embedder(models.settings, proposer)
    return transitions_of(models, episodes_of(store, learned), store, console)


def learned_apart(
    models: Models, store: Store, learned: Sequence[EpisodeSummary], out: Path, console: Console
) -> ValueModel:
    """Q and V of these episodes, learned or resumed in a folder of their own below `out`."""
    origin = TrainingIdentity.of(models, learned)
    folder, read = out / key_of(origin.identity), partial(transitions, models, store, learned, console)
    learn(partial(lesson, origin, read, folder, console), models.settings.iql, folder, console)
    return load_value(folder, embed=models.embedder.spec)


def fold_of(key: EpisodeKey) -> int:
    """Of `FOLDS`, by the task's name alone, so that more episodes change nothing."""
    return int(uniform(f"{key.suite}/{key.task}") * FOLDS)
