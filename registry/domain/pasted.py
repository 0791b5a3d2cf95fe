# SPDX-License-Identifier: Apache-2.0
"""What does a pasted list name, line by line: nodes, serials, UUIDs, or things that name nothing?

One name a line, or a table with commas, semicolons or tabs. A table whose first line names its columns is read by them;
without such a line each field is a name of its own. What a word is, when no column says so, the records tell.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from registry.domain.errors import FieldError, InvalidField
from registry.domain.identifiers import IdentifierType, is_placeholder, why_unusable

ASKED_MAX = 1000
"""Most names at once, as many as `POST /v1/admissions` takes."""

NAME_LENGTH = 256
"""Longest name: what is longer is no node, serial or UUID."""

NODE = "node"

_COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("node", "node_name", "hostname", "host", "instance"), NODE),
    **dict.fromkeys(("serial", "gpu_serial", "serial_number"), IdentifierType.SERIAL),
    **dict.fromkeys(("uuid", "gpu_uuid"), IdentifierType.UUID),
}
"""What a column may be called, in lower case and without its unit. `nvidia-smi --help-query-gpu` has most of them:
https://docs.nvidia.com/deploy/nvidia-smi/"""

_UNIT = re.compile(r"\s*\[[^\]]*\]$")
_LISTED = re.compile(r"GPU [0-9]+: .*\(UUID: ([^)]+)\)")
"""A line of `nvidia-smi -L`."""

_PLACEHOLDERS_ARE_NAMES = frozenset({NODE})
"""A node may be called what would be a gap in a column of serials."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One name, or the names of one row. `number` is its line, from 1, `text` what stands there.

    `word` is what no column says more of. `problem` says why it names nothing, as words that follow what it is.
    """

    number: int
    text: str
    node: str | None = None
    identifiers: tuple[tuple[IdentifierType, str], ...] = ()
    word: str | None = None
    problem: str | None = None


def parse_pasted(text: str) -> tuple[Asked, ...]:
    """Read a list. What cannot be used is in it with its reason. Raises InvalidField for none, and for too many."""
    lines = [(number, line.strip()) for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1)]
    filled = [(number, line) for number, line in lines if line]
    if not filled:
        raise _refused("is empty: paste node names, serials or UUIDs, one a line")
    mark = next((one for one in ("\t", ";", ",") if one in filled[0][1]), ",")
    columns = [_column(cell) for cell in _cells(filled[0][1], mark)]
    if any(columns):
        asked = [_row(number, line, _cells(line, mark), columns) for number, line in filled[1:]]
    else:
        asked = [one for number, line in filled for one in _words(number, line, mark)]
    if not asked:
        raise _refused("has a line with the names of columns, and nothing below it")
    if len(asked) > ASKED_MAX:
        raise _refused(f"has {len(asked)} names; at most {ASKED_MAX} are asked for at once")
    return tuple(asked)


def _refused(detail: str) -> InvalidField:
    return InvalidField(f"the list {detail}", errors=(FieldError("/names", detail),))


def _cells(line: str, mark: str) -> list[str]:
    """Split one line; a line that is no CSV is one name, quotes and all."""
    try:
        cells = next(csv.reader([line], delimiter=mark, skipinitialspace=True, strict=True))
    except csv.Error:
        return [line]
    return [cell.strip() for cell in cells]


def _column(cell: str) -> str | None:
    return _COLUMNS.get(_UNIT.sub("", cell).strip().casefold())


def _words(number: int, line: str, mark: str) -> Iterator[Asked]:
    """Every field of a line without columns is a name."""
    found = _LISTED.search(line)
    for cell in [found[1]] if found else [one for one in _cells(line, mark) if one]:
        if len(cell) > NAME_LENGTH:
            yield Asked(number, cell[:NAME_LENGTH], problem=f"is longer than {NAME_LENGTH} characters")
        else:
            yield Asked(number, cell, word=cell)


def _row(number: int, line: str, cells: Sequence[str], columns: Sequence[str | None]) -> Asked:
    """One row of a table with columns; gaps are none of its names."""
    shown = line[:NAME_LENGTH]
    if len(cells) != len(columns):
        problem = f"has {len(cells)} fields where the first line has {len(columns)}"
        return Asked(number, shown, problem=problem)
    node, named = None, list[tuple[IdentifierType, str]]()
    for column, cell in zip(columns, cells, strict=True):
        if column is None or not cell or (is_placeholder(cell) and column not in _PLACEHOLDERS_ARE_NAMES):
            continue
        if len(cell) > NAME_LENGTH:
            return Asked(number, shown, problem=f"has a name of more than {NAME_LENGTH} characters")
        if column == NODE:
            node = cell
        elif reason := why_unusable(column, cell):
            return Asked(number, shown, problem=f"has the {column} {cell}, which names nothing: it {reason}")
        else:
            named.append((IdentifierType(column), cell))
    if node is None and not named:
        return Asked(number, shown, problem="has neither a node nor a serial nor a UUID")
    return Asked(number, shown, node, tuple(named))
