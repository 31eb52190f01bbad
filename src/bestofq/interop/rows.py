"""Stored episodes as rows: of steps with all their candidates, of conversations, of preference pairs.

They are written as a Parquet file or as JSON lines, by the file's ending: as they come, whole or not at all."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from pydantic_core import to_json

from bestofq.agents.prompting import state_text
from bestofq.core.actions import Targeted, action_text
from bestofq.core.decision import Candidate, Decision, Episode, State, Step
from bestofq.core.errors import DataError, InputError
from bestofq.core.files import whole_file
from bestofq.core.loading import extra
from bestofq.core.tree import SearchTree
from bestofq.core.usage import Usage
from bestofq.search.mcts import state_after
from bestofq.search.pairs import node_pairs
from bestofq.search.tree import taken_to

Row = dict[str, Any]
Kind = Any  # of a column: `text`, `integer`, `number`, `truth`; a list of one kind; or a mapping of kinds by name
Columns = Mapping[str, Kind]
_AT_ONCE = 1024  # rows in memory, and of a row group
MESSAGES = [{"role": "text", "content": "text"}]
CANDIDATE: Columns = {
    **dict.fromkeys(("action", "kind"), "text"),
    "mark": "integer",
    **dict.fromkeys(("label", "reasoning", "note", "plan", "explanation"), "text"),
    "log_prob": "number",
    "votes": "integer",
    "reply": "text",
    **dict.fromkeys(("score", "q", "feedback"), "number"),
    "visits": "integer",
    "chosen": "truth",
}
_EPISODE: Columns = {
    **dict.fromkeys(("run", "agent", "suite", "task", "split", "episode", "goal", "outcome"), "text"),
    "episode_reward": "number",
    **dict.fromkeys(("judge", "reason"), "text"),
}
_STEP: Columns = {
    "step": "integer",
    **dict.fromkeys(("url", "title", "observation", "error"), "text"),
    "notices": ["text"],
    "picture": "text",
    "candidates": [CANDIDATE],
    "chosen": "integer",
    "explored": "truth",
    "state_value": "number",
    **dict.fromkeys(("scorer", "checkpoint"), "text"),
    "reward": "number",
    **dict.fromkeys(("terminated", "truncated"), "truth"),
    **dict.fromkeys(("tokens_in", "tokens_out"), "integer"),
    **dict.fromkeys(("usd", "seconds"), "number"),
}
STEPS: Columns = {**_EPISODE, **_STEP}
CONVERSATIONS: Columns = {"messages": MESSAGES, **_EPISODE}
PREFERENCES: Columns = {
    **dict.fromkeys(("prompt", "chosen", "rejected"), MESSAGES),
    "margin": "number",
    **dict.fromkeys(("run", "suite", "task", "split"), "text"),
}


def step_rows(episodes: Iterable[Episode]) -> Iterator[Row]:
    """A row a step (`STEPS`), with a struct a candidate (`CANDIDATE`). Unknown values are None."""
    return (_of_episode(episode) | _of_step(step) for episode in episodes for step in episode.steps)


def conversation_rows(episodes: Iterable[Episode]) -> Iterator[Row]:
    """A row an episode that has a step (`CONVERSATIONS`): pages by the user, thoughts and commands by the assistant."""
    for episode in episodes:
        messages: list[Row] = []
        for step in episode.steps:
            seen = State(task=episode.task, observation=step.observation)
            messages += [_user(seen), _assistant(step.decision.candidate)]
        if messages:
            yield {"messages": messages, **_of_episode(episode)}


def tree_pairs(run: str, tree: SearchTree, *, alpha: float, threshold: float) -> Iterator[Row]:
    """Pairs of a node's children (`PREFERENCES`) by Q as blended in Eq. 10 of Agent Q; `margin` is their difference."""
    root = State(task=tree.task, observation=tree.pages[tree.page[0]])
    for pair in node_pairs(tree, alpha=alpha, threshold=threshold):
        better, worse = tree.candidate[pair.chosen], tree.candidate[pair.rejected]
        assert better is not None
        assert worse is not None
        state = state_after(root, taken_to(pair.node, tree), tree.pages[tree.page[pair.node]])
        sides = {"prompt": [_user(state)], "chosen": [_assistant(better)], "rejected": [_assistant(worse)]}
        if sides["chosen"] != sides["rejected"]:  # the same words: they differ in what no command says, as a distance
            task = {"task": tree.task.id, "suite": tree.task.suite, "split": tree.task.split}
            yield {**sides, "margin": pair.margin, "run": run, **task}


def _user(state: State) -> Row:
    return {"role": "user", "content": state_text(state)}


def _assistant(candidate: Candidate) -> Row:
    """What `agents/dialects/commands.py` reads back: the thought, and the command as the last line."""
    return {"role": "assistant", "content": f"{candidate.thought}\n{action_text(candidate.action)}".strip()}


def _of_episode(episode: Episode) -> Row:
    task, verdict = episode.task, episode.verdict
    facts = {**vars(task), **vars(verdict), **vars(episode), "task": task.id}
    return _pick(_EPISODE, facts | {"episode": episode.id, "episode_reward": verdict.reward})


def _of_step(step: Step) -> Row:
    seen, decision = step.observation, step.decision
    own: Row = {
        "step": step.index,
        "observation": seen.text,
        "picture": seen.screenshot and seen.screenshot.sha256,
        "candidates": [_of_candidate(decision, index) for index in range(len(decision.candidates))],
    }
    return _pick(_STEP, {**vars(seen), **vars(decision), **vars(step), **total(decision.usage), **own})


def _of_candidate(decision: Decision, index: int) -> Row:
    candidate, score = decision.candidates[index], decision.scores[index]
    own: Row = {
        "action": action_text(candidate.action),
        "kind": candidate.action.kind,
        "mark": candidate.action.mark if isinstance(candidate.action, Targeted) else None,
        "reasoning": candidate.thought,
        "score": score,
        "q": score if decision.scorer == "QScorer" else None,
        "feedback": decision.feedback and decision.feedback[index],
        "visits": decision.visits and decision.visits[index],
        "chosen": index == decision.chosen,
    }
    return _pick(CANDIDATE, {**vars(candidate), **own})


def _pick(columns: Columns, facts: Row) -> Row:
    return {name: facts[name] for name in columns}


def total(usage: Sequence[Usage]) -> Row:
    """Of all roles. None if nothing was counted; a price is None too where one is not known."""
    if not usage:
        return dict.fromkeys(("tokens_in", "tokens_out", "usd", "seconds"))
    prices = [each.usd for each in usage]
    sums = {name: sum(getattr(each, name) for each in usage) for name in ("tokens_in", "tokens_out", "seconds")}
    return {**sums, "usd": None if None in prices else sum(filter(None, prices))}


def write_rows(path: Path, rows: Iterable[Row], columns: Columns, *, none: str) -> int:
    """Write rows that have these columns and return their number. InputError if the ending names no format, SetupError
    without the package for it, DataError with the sentence `none` without rows."""
    if path.suffix not in _WRITERS:
        raise InputError(f"{path} ends in {path.suffix or 'nothing'}: give a name that ends in {' or '.join(_WRITERS)}")
    with whole_file(path) as file:
        if not (count := _WRITERS[path.suffix](file, iter(rows), columns)):
            raise DataError(none)
        return count


def _json_lines(file: BinaryIO, rows: Iterator[Row], columns: Columns) -> int:
    return sum(file.write(to_json(_pick(columns, row), inf_nan_mode="null") + b"\n") > 0 for row in rows)


def _parquet(file: BinaryIO, rows: Iterator[Row], columns: Columns) -> int:
    arrow, parquet = extra("pyarrow"), extra("pyarrow.parquet")
    schema = arrow.schema([(name, _arrow_type(arrow, kind)) for name, kind in columns.items()])
    count = 0
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while some := list(islice(rows, _AT_ONCE)):
            writer.write_table(arrow.Table.from_pylist(some, schema=schema))
            count += len(some)
    return count


def _arrow_type(arrow: Any, kind: Kind) -> Any:
    match kind:
        case [of]:
            return arrow.list_(_arrow_type(arrow, of))
        case Mapping():
            return arrow.struct([(name, _arrow_type(arrow, one)) for name, one in kind.items()])
        case _:
            names = {"text": "string", "integer": "int64", "number": "float64", "truth": "bool_"}
            return getattr(arrow, names[kind])()


_WRITERS = {".parquet": _parquet, ".jsonl": _json_lines}
