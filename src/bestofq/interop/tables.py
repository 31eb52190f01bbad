"""Rows as a Parquet file, or as JSON lines, by the file's ending: written as they come, whole or not at all."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from pydantic_core import to_json

from bestofq.core.errors import DataError, InputError
from bestofq.core.files import whole_file
from bestofq.core.loading import extra

Kind = Any
"""Of a column: `text`, `integer`, `number`, `truth`; a list of one kind; or a mapping of kinds by name."""
Columns = Mapping[str, Kind]
_AT_ONCE = 1024  # rows in memory, and of a row group


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]], columns: Columns, *, none: str) -> int:
    """Write rows that have these columns; how many. InputError where its ending names no format, SetupError
    where the package for it is missing, DataError with the sentence `none` where there are no rows."""
    if path.suffix not in _WRITERS:
        raise InputError(f"{path} ends in {path.suffix or 'nothing'}: give a name that ends in {' or '.join(_WRITERS)}")
    with whole_file(path) as file:
        if not (count := _WRITERS[path.suffix](file, iter(rows), columns)):
            raise DataError(none)
        return count


def _json_lines(file: BinaryIO, rows: Iterator[Mapping[str, Any]], columns: Columns) -> int:
    count = 0
    for row in rows:
        count += 1
        file.write(to_json({name: row[name] for name in columns}, inf_nan_mode="null") + b"\n")
    return count


def _parquet(file: BinaryIO, rows: Iterator[Mapping[str, Any]], columns: Columns) -> int:
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
