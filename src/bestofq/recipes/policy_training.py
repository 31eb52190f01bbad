"""Learning from search trees (Agent Q): successful turns for RFT (Eq. 4), preference pairs for DPO (Eqs. 5, 6)."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from bestofq.build.agents import dialect_of
from bestofq.build.models import Models
from bestofq.core.decision import Candidate, State
from bestofq.core.errors import DataError, InputError
from bestofq.core.preferences import PreferencePair, Turn
from bestofq.core.tree import SearchTree
from bestofq.learning.config import TuningConfig
from bestofq.learning.distributed import group_left, is_first_process
from bestofq.learning.objectives import Means, PairMeans, TurnMeans
from bestofq.learning.tuning import Report, TuningProgress, train_on_preferences, train_on_successes
from bestofq.models.local import LocalModel
from bestofq.models.shipped import SHIPPED
from bestofq.recipes.run_config import check_searched
from bestofq.rollouts.progress import bar
from bestofq.search.mcts import state_after
from bestofq.search.pairs import node_pairs, rollouts
from bestofq.store.pairs import PairSource
from bestofq.store.store import Store


def searched_trees(models: Models, store: Store, run: str) -> list[SearchTree]:
    """The trees of a run. InputError where there are none, DataError where another model or prompt grew them."""
    for record in store.runs():
        if record.name == run:
            check_searched(models, record)
    trees = list(store.trees.all(run))
    if not trees:
        raise InputError(f"the store holds no search trees of the run {run!r}: grow some by `bestofq search`")
    return trees


def step_pairs(models: Models, trees: Iterable[SearchTree]) -> Iterator[PreferencePair]:
    """Pairs of the actions of one node (Eq. 5), by Q as blended in Eq. 10; each pair of texts once."""
    settings = models.settings.agent_q
    seen: set[tuple[Turn, Turn]] = set()
    for tree in trees:
        for pair in node_pairs(tree, alpha=settings.alpha, threshold=settings.threshold):
            chosen, rejected = (_turn(models, tree, child) for child in (pair.chosen, pair.rejected))
            if (chosen, rejected) not in seen:
                seen.add((chosen, rejected))
                yield PreferencePair(
                    chosen=(chosen,), rejected=(rejected,), margin=pair.margin, task=tree.task.id, node=pair.node
                )


def trajectory_pairs(models: Models, trees: Iterable[SearchTree]) -> Iterator[PreferencePair]:
    """Each success of a task against one of its failures (Eq. 6), in the order they were found."""
    for tree in trees:
        ends = list(rollouts(tree))
        won = [path for path, reward in ends if reward >= 1]
        lost = [path for path, reward in ends if reward < 1]
        if won and lost:
            for number, success in enumerate(won):
                failure = lost[number % len(lost)]
                chosen, rejected = (tuple(_turn(models, tree, n) for n in path) for path in (success, failure))
                yield PreferencePair(chosen=chosen, rejected=rejected, margin=1.0, task=tree.task.id)


def successful_turns(models: Models, trees: Iterable[SearchTree]) -> Iterator[tuple[Turn, ...]]:
    """The turns of each successful rollout (Eq. 4: what RFT learns from)."""
    for tree in trees:
        for path, reward in rollouts(tree):
            if reward >= 1:
                yield tuple(_turn(models, tree, node) for node in path)


def _turn(models: Models, tree: SearchTree, node: int) -> Turn:
    """The composite action that leads to `node`, with h_t as the model read it."""
    candidate = tree.candidate[node]
    assert candidate is not None
    if candidate.reply_ids is None or candidate.log_prob is None:
        raise DataError(
            f"the tree of {tree.task.id} holds an action without its tokens or likelihood: search with a local model "
            "in Agent Q's format (--set model.dialect=composite)"
        )
    above = tree.parent[node]
    taken: list[Candidate] = [c for n in tree.path(above)[1:] if (c := tree.candidate[n]) is not None]
    root = State(task=tree.task, observation=tree.pages[tree.page[0]])
    state = state_after(root, taken, tree.pages[tree.page[above]])
    prompt = tuple(models.local.encode(dialect_of(models.settings).prompt(state)))
    return Turn(prompt_ids=prompt, reply_ids=candidate.reply_ids, log_prob=candidate.log_prob)


def source(models: Models) -> PairSource:
    """What drew the turns, and what can learn from them."""
    tokens = json.dumps(models.local.tokenizer.get_vocab(), sort_keys=True)
    return PairSource(
        model=models.local.name,
        revision=models.local.revision,
        prompt=models.prompts,
        tokens=hashlib.sha256(tokens.encode()).hexdigest()[:16],
    )


def need_pairs(pairs: Sequence[PreferencePair], trees: int) -> None:
    """InputError where the trees hold nothing to learn from."""
    if not pairs:
        raise InputError(
            f"{trees} search trees hold no pair of explored actions that differ enough: search more rollouts a task "
            "(--set agent_q.search.iterations=…), or lower agent_q.threshold"
        )


def tune(models: Models, pairs: Sequence[PreferencePair], out: Path, console: Console) -> Path:
    """DPO (Eq. 5 or 6) from the model that drew the pairs, or the last of them; the folder of the tuned one. On all
    processes launched."""
    config = models.settings.agent_q.dpo

    def train(weights: Any, report: Report[PairMeans]) -> Path:
        return train_on_preferences(weights, pairs, config, report, out=out)

    def said(means: PairMeans) -> str:
        return f"loss {means.loss:.3f}, {100 * means.accuracy:.0f} % right way round"

    return _trained(models, "DPO", config, train, said, console)


def reinforce(models: Models, trees: Iterable[SearchTree], out: Path, console: Console) -> Path:
    """RFT (Eq. 4) on the successful rollouts of the trees; the folder of the tuned model. On all processes launched."""
    config = models.settings.agent_q.rft
    turns = [turn for turns in successful_turns(models, trees) for turn in turns]

    def train(weights: Any, report: Report[TurnMeans]) -> Path:
        return train_on_successes(weights, turns, config, report, out=out)

    return _trained(models, "RFT", config, train, lambda means: f"loss {means.loss:.3f}", console)


def _trained(
    models: Models,
    label: str,
    config: TuningConfig,
    train: Callable[[Any, Report[Means]], Path],
    said: Callable[[Means], str],
    console: Console,
) -> Path:
    """What `train` makes of a copy of the policy's weights, in float32 unless only adapters are trained, with the
    policy's tokenizer; `said` of each step beside a bar."""
    chosen, precision = models.settings.model, "float32" if config.lora is None else models.settings.model.precision
    with bar(console) as shown:
        row = shown.add_task(label, total=None)

        def report(made: TuningProgress[Means]) -> None:
            text = f"{label}: {said(made.means)}"
            shown.update(row, completed=made.step, total=made.steps, description=text)

        with group_left():
            path = SHIPPED.get(chosen.path, chosen.path)
            folder = train(LocalModel.load(path, device=chosen.device, precision=precision).model, report)
    if is_first_process():
        models.local.tokenizer.save_pretrained(folder)
    return folder
