"""Learning from search trees (Agent Q): successful turns for RFT (Eq. 4), preference pairs for DPO (Eqs. 5, 6)."""

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle
from pathlib import Path

from bestofq.agents.dialects.composite import COMPOSITE
from bestofq.agents.structured_output import SHOWN
from bestofq.config.agents import dialect_of
from bestofq.config.models import Models, in_pocket_prompts
from bestofq.core.decision import State
from bestofq.core.errors import ConfigError, DataError, InputError
from bestofq.core.language import Message, ids_hash, user
from bestofq.core.loading import extra
from bestofq.core.preferences import PreferencePair, Turn
from bestofq.core.tree import SearchTree
from bestofq.core.words import count_of
from bestofq.learning.config import TuningConfig
from bestofq.learning.distributed import group_left, is_first_process
from bestofq.learning.tracking import Log, discard_log
from bestofq.learning.tuning import TuningProgress, train_policy
from bestofq.models.local import LocalModel
from bestofq.models.shipped import find_model
from bestofq.recipes.identity import check_tree_run
from bestofq.rollouts.progress import bar
from bestofq.search.mcts import state_after
from bestofq.search.pairs import node_pairs, rollouts
from bestofq.search.tree import taken_to
from bestofq.store.pairs import PairSource
from bestofq.store.store import Store

logger = logging.getLogger(__name__)


def searched_trees(models: Models, store: Store, run: str) -> list[SearchTree]:
    """The trees of a run. InputError where there are none, DataError where another model or prompt grew them."""
    for record in store.runs():
        if record.name == run:
            check_tree_run(models, record)
    trees = list(store.trees.all(run))
    if not trees:
        raise InputError(f"the store holds no search trees of the run {run!r}: grow some by `bestofq search`")
    return trees


def _check_tokens(models: Models, trees: Sequence[SearchTree]) -> None:
    """DataError where no action has tokens, or all were drawn after others than the local tokenizer makes of a root."""
    told = [(tree, node) for tree in trees for node, one in enumerate(tree.candidate) if one and one.reply_ids]
    if not told:
        raise DataError(
            f"the {len(trees)} trees hold actions without tokens or likelihoods: search in Agent Q's format "
            "(--set model.dialect=composite), with a local model or an endpoint that tells them (token_ids=true)"
        )
    roots = [(tree, node) for tree, node in told if tree.parent[node] == 0]
    if roots and not any(_prompt_ids(models, tree, node) for tree, node in roots):
        raise DataError(
            f"the prompts of all {len(trees)} tasks were read as other tokens than the tokenizer and chat template of "
            f"{models.settings.model.path} make of them: give the checkpoint that was searched with (--model); an "
            "endpoint must read no pictures (chat_screenshots=0), and no template the date"
        )


def check_policy(models: Models) -> None:
    """ConfigError where the model's tokens are not kept, or where a Q-function of one model is to rank for all rounds'
    models. SetupError without the extra that DPO needs, or the model."""
    if models.settings.endpoint_of("chat") is not None or models.settings.model.dialect != "composite":
        raise ConfigError(
            "Agent Q learns from the tokens of composite actions: give a local model that writes them, such as "
            "--model pocket-agentq --set model.dialect=composite, and no endpoint; a served model goes step by step "
            "(bestofq search, pairs, tune), since each round's policy has to be served"
        )
    if models.settings.agent_q.feedback == "q":
        raise ConfigError(
            "agent_q.feedback=q ranks by a Q-function of one model, and each round makes another: "
            "choose agent_q.feedback=model, or go step by step (bestofq search, pairs, tune)"
        )
    extra("accelerate")
    _ = models.local.revision


def step_pairs(models: Models, trees: Iterable[SearchTree]) -> Iterator[PreferencePair]:
    """Pairs of the actions of one node (Eq. 5), by Q as blended in Eq. 10; each pair of texts once."""
    settings = models.settings.agent_q
    seen: set[tuple[Turn, Turn]] = set()
    for turns in _turns_of(models, trees):
        tree = turns.tree
        for pair in node_pairs(tree, alpha=settings.alpha, threshold=settings.threshold):
            chosen, rejected = (turns[child] for child in (pair.chosen, pair.rejected))
            if chosen and rejected and (chosen, rejected) not in seen:
                seen.add((chosen, rejected))
                yield PreferencePair(
                    chosen=(chosen,), rejected=(rejected,), margin=pair.margin, task=tree.task.id, node=pair.node
                )


def trajectory_pairs(models: Models, trees: Iterable[SearchTree]) -> Iterator[PreferencePair]:
    """Each success of a task against one of its failures (Eq. 6), in the order they were found."""
    for turns in _turns_of(models, trees):
        ends = list(rollouts(turns.tree))
        won = [path for path, reward in ends if reward >= 1]
        lost = [path for path, reward in ends if reward < 1]
        for pair in zip(won, cycle(lost), strict=False):
            chosen, rejected = (tuple(turn for node in path if (turn := turns[node])) for path in pair)
            if (len(chosen), len(rejected)) == (len(pair[0]), len(pair[1])):
                yield PreferencePair(chosen=chosen, rejected=rejected, margin=1.0, task=turns.tree.task.id)


def successful_turns(models: Models, trees: Iterable[SearchTree]) -> Iterator[tuple[Turn, ...]]:
    """The turns of each successful rollout (Eq. 4: what RFT learns from)."""
    for turns in _turns_of(models, trees):
        for path, reward in rollouts(turns.tree):
            if reward >= 1:
                yield tuple(turn for node in path if (turn := turns[node]))


class _Turns(dict[int, Turn | None]):
    """The composite action that leads to each node, with h_t as the model read it.

    None if the action was not drawn, or was drawn after more than the state, such as a reply to be repaired.
    """

    def __init__(self, models: Models, tree: SearchTree) -> None:
        self.models, self.tree = models, tree

    def __missing__(self, node: int) -> Turn | None:
        candidate = self.tree.candidate[node]
        assert candidate is not None
        self[node], ids, log_prob = None, candidate.reply_ids, candidate.log_prob
        if ids is not None and log_prob is not None and (prompt := _prompt_ids(self.models, self.tree, node)):
            self[node] = Turn(prompt_ids=prompt, reply_ids=ids, log_prob=log_prob)
        return self[node]


def _turns_of(models: Models, trees: Iterable[SearchTree]) -> Iterator[_Turns]:
    """Of each tree; says at its end how many were left out. DataError as `_check_tokens`."""
    _check_tokens(models, trees := list(trees))
    for tree in trees:
        yield (turns := _Turns(models, tree))
        if lost := list(turns.values()).count(None):
            said = "%s: %d actions are left out: stand-ins without tokens, or drawn after more than their page"
            logger.warning(said, tree.task.id, lost)


def _prompt_ids(models: Models, tree: SearchTree, node: int) -> tuple[int, ...] | None:
    """h_t of the action that leads to `node`, with the history it was drawn after; None: after other tokens."""
    candidate, above = tree.candidate[node], tree.parent[node]
    root = State(task=tree.task, observation=tree.pages[tree.page[0]])
    state = state_after(root, taken_to(above, tree), tree.pages[tree.page[above]])
    read = candidate.prompt_hash if candidate else None
    history = min(SHOWN, len(state.decisions))
    while True:
        ids = tuple(models.tokens.encode(*policy_prompt(models, state, history)))
        if read in (None, ids_hash(ids)):
            return ids
        if not history:
            return None
        history //= 2


def policy_prompt(models: Models, state: State, history: int = SHOWN) -> tuple[str | Message, ...]:
    """Return the policy's prompt in a state; a prompt with instructions shows the last `history` actions."""
    if in_pocket_prompts(models.settings):
        return (dialect_of(models.settings).prompt(state),)
    shown = min(history, len(state.decisions))
    return user(COMPOSITE.user(state, shown), system=COMPOSITE.system(state, 1, None))


def source(models: Models) -> PairSource:
    tokens = json.dumps(models.tokens.tokenizer.get_vocab(), sort_keys=True)
    return PairSource(
        model=models.tokens.name,
        revision=models.tokens.revision,
        prompt=models.prompts,
        tokens=hashlib.sha256(tokens.encode()).hexdigest()[:16],
    )


def need_pairs(pairs: Sequence[PreferencePair], trees: int) -> None:
    """InputError where the trees hold nothing to learn from."""
    if not pairs:
        raise InputError(
            f"of {count_of(trees, 'search tree')} none holds explored actions that differ enough: search more rollouts "
            "a task (--set agent_q.search.iterations=…), or lower agent_q.threshold"
        )


def tune(models: Models, pairs: Sequence[PreferencePair], out: Path, *, log: Log = discard_log) -> Path:
    """Train by DPO (Eq. 5 or 6) from the model that drew the pairs, on all processes. Return the tuned folder."""
    return _train("DPO", models, pairs, models.settings.agent_q.dpo, out, log)


def reinforce(models: Models, trees: Iterable[SearchTree], out: Path, *, log: Log = discard_log) -> Path:
    """Train by RFT (Eq. 4) on the successful rollouts of the trees, on all processes. Return the tuned folder."""
    turns = [turn for turns in successful_turns(models, trees) for turn in turns]
    return _train("RFT", models, turns, models.settings.agent_q.rft_config, out, log)


def _train(
    label: str,
    models: Models,
    items: Sequence[PreferencePair] | Sequence[Turn],
    config: TuningConfig,
    out: Path,
    log: Log,
) -> Path:
    """Train a copy of the policy, in float32 unless only adapters are trained. A bar and `log` show each step."""
    chosen, precision = models.settings.model, "float32" if config.lora is None else models.settings.model.precision
    with bar() as shown, group_left():
        row = shown.add_task(label, total=None)

        def report(made: TuningProgress) -> None:
            text = f"{label}: loss {made.means['loss']:.3f}"
            if "accuracy" in made.means:
                text += f", {100 * made.means['accuracy']:.0f} % right way round"
            shown.update(row, completed=made.step, total=made.steps, description=text)
            log(made.step, {**made.means, "gradient_norm": made.gradient_norm, "lr": made.lr})

        policy = LocalModel.load(find_model(chosen.path), device=chosen.device, precision=precision).model
        folder = train_policy(policy, items, config, report, out=out)
    if is_first_process():
        models.tokens.tokenizer.save_pretrained(folder)
    return folder
