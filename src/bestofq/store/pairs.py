"""Preference pairs as a Parquet file, in TRL's column names: `datasets.load_dataset("parquet", data_files=…)`.

Pairs of single turns have TRL 1.16's names after its tokenization: `prompt_ids`, `chosen_ids`, `rejected_ids`,
`ref_chosen_logps`, `ref_rejected_logps`. We add `margin`, `task` and `node`. With `decode` there are also the texts
`prompt`, `chosen` and `rejected`, with which TRL's trainers begin.

Pairs of trajectories have lists of turns instead of ids, and prompts for each side: `chosen_prompt_ids`,
`rejected_prompt_ids`, `chosen_logps`, `rejected_logps`. The sums are `ref_…_logps`. The metadata names the source.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from bestofq.core.errors import DataError
from bestofq.core.files import whole_file
from bestofq.core.frozen import FrozenModel, reason_of
from bestofq.core.loading import extra
from bestofq.core.preferences import PreferencePair, Turn

Kind = Literal["step", "trajectory"]
Decode = Callable[[Sequence[int]], str]
_KEY = b"bestofq"
_COLUMNS: Mapping[Kind, Sequence[str]] = {
    "step": ("prompt_ids", "chosen_ids", "rejected_ids"),
    "trajectory": tuple(f"{side}_{name}" for side in ("chosen", "rejected") for name in ("prompt_ids", "ids", "logps")),
}
_COMMON = ("ref_chosen_logps", "ref_rejected_logps", "margin", "task", "node")


class PairSource(FrozenModel):
    """What drew the turns of a file: its likelihoods belong to that."""

    model: str = Field(description="name of the model that drew them")
    revision: str = Field(description="of its weights")
    prompt: str = Field(description="hash of the prompt's template")
    tokens: str = Field(description="hash of the vocabulary")


class _Card(FrozenModel):
    format: Literal[1] = 1
    kind: Kind
    source: PairSource


def write_pairs(
    path: Path, pairs: Sequence[PreferencePair], source: PairSource, *, decode: Decode | None = None
) -> Path:
    """Write pairs, whole or not at all, and return `path`. `decode` turns ids into text, special tokens included.

    DataError without pairs, or if a likelihood is above 0, NaN or -inf.
    """
    if not pairs:
        raise DataError(f"There are 0 preference pairs to write to {path}; search more tasks, or lower the threshold.")
    _check(pairs, path)
    arrow, parquet = extra("pyarrow"), extra("pyarrow.parquet")
    card = _Card(kind="step" if all(map(_is_step, pairs)) else "trajectory", source=source)
    table = arrow.Table.from_pylist([_row(pair, card.kind, decode) for pair in pairs])
    table = table.replace_schema_metadata({_KEY: card.model_dump_json().encode()})
    with whole_file(path) as file:
        parquet.write_table(table, file, write_page_checksum=True)
    return path


def read_pairs(path: Path, *, source: PairSource | None = None, replayed: bool = False) -> list[PreferencePair]:
    """Return the pairs of a file that `write_pairs` wrote.

    `replayed`: another policy may have drawn them in an earlier round, with its likelihoods (Agent Q, 3.2.2).
    DataError if the file is missing, damaged or empty. With `source`, DataError if the prompt or the vocabulary
    differs, or, unless replayed, the model or its revision.
    """
    if not path.is_file():
        raise DataError(f"There are no preference pairs at {path}.")
    arrow, parquet = extra("pyarrow"), extra("pyarrow.parquet")
    try:
        table = parquet.read_table(path, page_checksum_verification=True)
        card = _Card.model_validate_json((table.schema.metadata or {}).get(_KEY, b"{}"))
        columns = table.select((*_COLUMNS[card.kind], *_COMMON))
        pairs = [_pair(row, card.kind) for row in columns.to_pylist()]
    except (arrow.ArrowException, OSError, KeyError, TypeError, ValueError) as error:  # ValidationError is a ValueError
        problem = f"{path} is no file of preference pairs, or a damaged one ({reason_of(error)})"
        raise DataError(f"{problem}: give one that `bestofq pairs` wrote") from error
    names = ("prompt", "tokens") if replayed else tuple(PairSource.model_fields)
    theirs, ours = card.source, source or card.source
    both = ((name, getattr(theirs, name), getattr(ours, name)) for name in names)
    if differing := [f"{name} {before!r}, not {now!r}" for name, before, now in both if before != now]:
        raise DataError(
            f"The pairs in {path} were drawn by another policy: {', '.join(differing)}. Collect new pairs with this "
            "one, or give those of an earlier round of its training by --replay."
        )
    if not pairs:
        raise DataError(f"{path} holds 0 preference pairs.")
    _check(pairs, path)
    return pairs


def _check(pairs: Sequence[PreferencePair], path: Path) -> None:
    for pair, turn in ((each, turn) for each in pairs for turn in (*each.chosen, *each.rejected)):
        if not (math.isfinite(turn.log_prob) and turn.log_prob <= 1e-3):  # rounding may pass 0 by a little
            raise DataError(
                f"{path}, task {pair.task}, node {pair.node}: {turn.log_prob} is no log-likelihood; DPO needs the one "
                "of each turn, so draw them with a model that reports it."
            )


def _is_step(pair: PreferencePair) -> bool:
    return len(pair.chosen) == len(pair.rejected) == 1 and pair.chosen[0].prompt_ids == pair.rejected[0].prompt_ids


def _row(pair: PreferencePair, kind: Kind, decode: Decode | None) -> dict[str, Any]:
    row: dict[str, Any] = {"margin": pair.margin, "task": pair.task, "node": pair.node}
    for side, turns in (("chosen", pair.chosen), ("rejected", pair.rejected)):
        row[f"ref_{side}_logps"] = math.fsum(turn.log_prob for turn in turns)
        row[f"{side}_ids"] = turns[0].reply_ids if kind == "step" else [turn.reply_ids for turn in turns]
        if kind == "trajectory":
            row[f"{side}_prompt_ids"] = [turn.prompt_ids for turn in turns]
            row[f"{side}_logps"] = [turn.log_prob for turn in turns]
    if kind == "step":
        row["prompt_ids"] = pair.chosen[0].prompt_ids
        row |= {name: decode(row[f"{name}_ids"]) for name in ("prompt", "chosen", "rejected") if decode}
    return row


def _pair(row: Mapping[str, Any], kind: Kind) -> PreferencePair:
    def side(name: str) -> tuple[Turn, ...]:
        if kind == "step":
            turns = [(row["prompt_ids"], row[f"{name}_ids"], row[f"ref_{name}_logps"])]
        else:
            turns = list(zip(*(row[f"{name}_{of}"] for of in ("prompt_ids", "ids", "logps")), strict=True))
        return tuple(Turn(prompt_ids=prompt, reply_ids=reply, log_prob=log_prob) for prompt, reply, log_prob in turns)

    others = {name: row[name] for name in ("margin", "task", "node")}
    return PreferencePair(chosen=side("chosen"), rejected=side("rejected"), **others)
