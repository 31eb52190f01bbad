"""Train a Q-function in a folder of its own: what it depends on, what it learns from, and the training itself."""

import shutil
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from bestofq.agents.scorers.learned import Values
from bestofq.agents.scorers.memory import experiences
from bestofq.config.models import Models, check_embedder
from bestofq.core.concurrency import on_ctrl_c
from bestofq.core.decision import Episode
from bestofq.core.embedding import EmbedItem
from bestofq.core.errors import DataError, InputError
from bestofq.core.transitions import Floats, Transitions
from bestofq.core.words import count_of
from bestofq.learning.checkpoint import export_value, load_learner, load_value, save_learner
from bestofq.learning.config import CARD, IQLConfig
from bestofq.learning.distributed import choose_device
from bestofq.learning.iql import IQL, train_iql
from bestofq.learning.memory import FILE, Memory
from bestofq.learning.networks import parameter_counts
from bestofq.learning.tracking import Log, discard_log
from bestofq.models.cached_embedder import VectorStore
from bestofq.recipes.identity import DONE, IDENTITY, UNFINISHED, episode_set, is_done, q_identity, set_begun
from bestofq.rollouts.console import console
from bestofq.rollouts.progress import bar
from bestofq.rollouts.transitions import tabulate
from bestofq.store.records import EpisodeSummary
from bestofq.store.store import Store

NO_SUCCESS = (
    "none of the episodes succeeded, so there is nothing to learn a value from: "
    "collect more (`bestofq collect`), or use a stronger model"
)
NO_OUTCOME = (
    "of {} finished episodes none has both a step and an outcome, so there is nothing to learn from: "
    "collect some (`bestofq collect`), or judge those that have none (`bestofq judge`)"
)
ADVICE = "give --out another folder, or --again to train again in this one"


def train_q(
    out: Path,
    models: Models,
    store: Store,
    episodes: Sequence[EpisodeSummary],
    *,
    iql: IQLConfig | None = None,
    again: bool = False,
    log: Log = discard_log,
    vectors: VectorStore | None = None,
) -> Values:
    """Train Q and V on `episodes` by IQL (3.2) in the folder `out`, continue an unfinished training, or load them.

    If `models.settings.value` is memory, the outcomes of the episodes' actions are remembered instead.

    `iql` None: as the settings say. `again`: train once more, also with other settings. The curves go to `log`,
    computed vectors to `vectors` (None: the store). Raise DataError if `out` holds a Q-function of other settings or
    episodes. Raise InputError if no episode succeeded. Raise ConfigError if an endpoint proposed and nothing embeds.
    """
    config, known = iql or models.settings.iql, episode_set(episodes)
    identity = q_identity(models, known, config)
    if not again and (out / CARD).exists() and not (out / IDENTITY).exists():
        raise DataError(f"{out} holds a Q-function without {IDENTITY}, of unknown settings: {ADVICE}")
    foreign = not any((out / name).exists() for name in (IDENTITY, CARD, FILE))
    if foreign and out.is_dir() and any(map(Path.is_file, out.iterdir())):
        raise InputError(f"{out} holds something other than a Q-function: give --out a new folder")
    if not again and is_done(out, identity, advice=ADVICE):
        console.print(f"{out} holds the Q-function of these settings and episodes: it is used as it is")
        return load_q(out, models)
    if not known.count:
        raise InputError(NO_OUTCOME.format(len(episodes)))
    if models.settings.value == "memory":
        return _remember(out, models, store, episodes, identity)
    runs = {episode.run for episode in episodes}
    for record in store.runs():
        if record.name in runs and isinstance(chat := record.config.get("chat"), dict):
            check_embedder(models.settings, str(chat["model"]))
    spec = models.embedder.spec
    data = transitions_of(models, episodes_of(store, episodes), store, vectors)
    set_begun(out, identity)
    (out / FILE).unlink(missing_ok=True)  # alone in a folder it would rank
    card: dict[str, Any] = {"embed": spec, "train_n": models.settings.n_candidates, "episodes": known}
    unfinished = out / UNFINISHED
    begun = load_learner(unfinished, embed=spec, device=config.device) if (unfinished / CARD).exists() else None
    at_once = on_ctrl_c(signal.default_int_handler)  # `improve` would hear of it after the training
    with training_progress(config, data, at=begun.step if begun else 0) as progress, at_once:
        keep = partial(save_learner, unfinished, **card)
        trained = train_iql(data, config, resume=begun, save=keep, on_step=progress, log=log)
    export_value(out, trained, **card)
    learn_memory(models, store, episodes).save(out)
    (out / DONE).touch()
    shutil.rmtree(unfinished, ignore_errors=True)
    console.print(f"Q and V learned from {count_of(len(data), 'transition')}: {out}")
    return load_value(out, embed=spec)


def load_q(out: Path, models: Models) -> Values:
    """Load what `train_q` left in a folder by the same settings."""
    return Memory.load(out) if models.settings.value == "memory" else load_value(out, embed=models.embedder.spec)


def _remember(
    out: Path, models: Models, store: Store, episodes: Sequence[EpisodeSummary], identity: Mapping[str, JsonValue]
) -> Memory:
    if not any(episode.success for episode in episodes):
        raise InputError(NO_SUCCESS)
    memory, known = learn_memory(models, store, episodes), episode_set(episodes)
    set_begun(out, identity)
    (out / CARD).unlink(missing_ok=True)  # of a network that was trained there before
    memory.save(out)
    (out / DONE).touch()
    learned = count_of(known.count, "episode")
    console.print(f"The outcomes of {learned} are remembered under {len(memory.table):,} keys: {out}")
    return memory


def learn_memory(models: Models, store: Store, episodes: Sequence[EpisodeSummary]) -> Memory:
    played = experiences(episodes_of(store, episodes))
    return Memory.learn(played, train_n=models.settings.n_candidates, episodes=episode_set(episodes))


def train_on_runs(
    models: Models,
    store: Store,
    runs: Sequence[str],
    out: Path,
    *,
    again: bool = False,
    episodes: int | None = None,
    log: Log = discard_log,
) -> Values:
    """Train Q and V on the episodes of `runs`; warn of dev or test tasks, and of another N than the settings'."""
    n = models.settings.n_candidates
    for record in (one for one in store.runs() if one.name in runs):
        if (played := record.config.get("n_candidates", n)) != n:
            warning = (
                f"{record.name} was played with n_candidates={played}, and the Q-function will be taken for one of "
                f"n_candidates={n}: add --set n_candidates={played}"
            )
            console.print(warning, style="yellow", markup=False)
        split = record.config.get("split") if "suite" in record.config else None  # imported ones have no suite
        if split in ("dev", "test"):
            warning = (
                f"{record.name} was played on {split} tasks, and Q learns from them: its success on these says "
                "nothing about other tasks"
            )
            console.print(warning, style="yellow", markup=False)
    return train_q(out, models, store, select_episodes(store, runs, episodes), again=again, log=log)


def select_episodes(store: Store, runs: Sequence[str], episodes: int | None = None) -> list[EpisodeSummary]:
    """Return the finished episodes of `runs`, or the first `episodes` of those that teach, pass after pass.

    A run that is named twice counts once. DataError if there are fewer episodes, or no such run.
    """
    known = [run.name for run in store.runs()]
    if missing := [run for run in runs if run not in known]:
        others = f"it has {', '.join(known)}: give --run {known[0]}" if known else "it has none: collect episodes first"
        raise DataError(f"there is no run {missing[0]!r} in the store: {others}")
    every = [store.summaries(run=run) for run in dict.fromkeys(runs)]
    if episodes is None:
        return [one for some in every for one in some]
    found = [e for some in every for e in sorted(some, key=attrgetter("fair_order")) if e.decided and e.steps]
    if len(found) < episodes:
        raise DataError(
            f"{', '.join(runs)}: {count_of(len(found), 'decided episode')}, fewer than {episodes}: ask for fewer, or "
            "collect more"
        )
    return found[:episodes]


def episodes_of(store: Store, learned: Sequence[EpisodeSummary]) -> Iterator[Episode]:
    wanted = {episode.id for episode in learned}
    stored = (one for run in dict.fromkeys(episode.run for episode in learned) for one in store.episodes(run=run))
    return (one for one in stored if one.id in wanted)


def transitions_of(
    models: Models, episodes: Iterable[Episode], store: Store, vectors: VectorStore | None = None
) -> Transitions:
    """The training set of episodes; vectors are kept in `vectors`, None: in `store`. InputError without a success."""
    items, rows = tabulate(episodes, models.texts)
    if not rows.reward.any():
        raise InputError(NO_SUCCESS)
    kept = store.vectors(models.embedder.spec) if vectors is None else vectors
    return replace(rows, vectors=embed_items(models, items, store, kept))


def embed_items(models: Models, items: Sequence[EmbedItem], store: Store, vectors: VectorStore) -> Floats:
    """Vectors [B, D] of items of `store`'s episodes; each distinct one is embedded once, for good in `vectors`."""
    with bar() as shown:
        row = shown.add_task("embedding", total=len(items))
        return models.embedder.embed_all(
            items, vectors, progress=lambda done: shown.update(row, completed=done), pictures=store.screenshots.load
        )


@contextmanager
def training_progress(config: IQLConfig, data: Transitions, *, at: int = 0) -> Iterator[Callable[[IQL], None]]:
    """Say what is trained, and show how far it is. Yield what to call after each step."""
    q, v = parameter_counts(data.dim, config.network)
    hidden = "-".join(map(str, config.network.widths(data.dim)))
    console.print(
        f"Q ({q:,} parameters) and V ({v:,}), hidden layers {hidden}, learn from {len(data):,} transitions with "
        f"vectors of {data.dim:,}: {config.steps:,} steps of {config.batch_size} on {choose_device(config.device)}"
    )
    if at:
        console.print(f"the training continues after step {at:,}")
    with bar() as shown:
        task = shown.add_task("training Q and V", total=config.steps, completed=at)
        yield lambda iql: shown.update(task, completed=iql.step)
