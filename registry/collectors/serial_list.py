# SPDX-License-Identifier: Apache-2.0
"""Which serials and UUIDs does a list of bad hardware name, row by row? As CSV with a header, or as NDJSON.

Columns and members are `serial` or `gpu_serial`, and `uuid` or `gpu_uuid`: the names of `nvidia-smi --help-query-gpu`,
https://docs.nvidia.com/deploy/nvidia-smi/. Case, surrounding blanks and a unit in brackets make no difference. Its
`pci.bus_id` or `gpu_bus_id` is known too and not read: another device may be in that place by now.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from registry.collectors.nvidia_smi_text import shown
from registry.domain.errors import PartUnreadable
from registry.domain.identifiers import IdentifierType, is_placeholder, why_unusable

NAMES = {
    "serial": IdentifierType.SERIAL,
    "gpu_serial": IdentifierType.SERIAL,
    "uuid": IdentifierType.UUID,
    "gpu_uuid": IdentifierType.UUID,
}
"""What a column may be called, in lower case and without its unit."""

PLACES = frozenset({"pci.bus_id", "gpu_bus_id", "pci.gpu_bus_id"})
"""Columns that say where hardware was, in lower case."""

PLACE = "names a place, in which other hardware may be by now, and was not read"
"""What is told of such a column."""

_UNIT = re.compile(r"\s*\[[^\]]*\]$")


@dataclass(frozen=True, slots=True)
class ListedRow:
    """One row: what it names, or why it cannot be used. `number` is its line in the file, from 1."""

    number: int
    identifiers: tuple[tuple[IdentifierType, str], ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class SerialList:
    """The rows that are not blank, in their order, the columns that nobody knows, and those that name places."""

    rows: tuple[ListedRow, ...]
    unknown: tuple[str, ...]
    places: tuple[str, ...]


def parse(data: bytes) -> SerialList:
    """Read a list. A row that cannot be used is in it with its reason, and spoils no other.

    Raises PartUnreadable when it is no text, is empty, or has no column that names hardware.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PartUnreadable(f"the list is not UTF-8 text ({error.reason})") from error
    if not text.strip():
        raise PartUnreadable("the list is empty")
    return _parse_ndjson(text) if text.lstrip().startswith("{") else _parse_csv(text)


def _parse_csv(text: str) -> SerialList:
    table = csv.reader(io.StringIO(text, newline=None), skipinitialspace=True)
    try:
        header = next((row for row in table if any(field.strip() for field in row)), [])
        columns = [_known(name) for name in header]
        if not any(columns):
            raise PartUnreadable(
                f"no column is called serial, gpu_serial, uuid or gpu_uuid: the header is {shown(','.join(header))}"
            )
        rows = tuple(_csv_row(table.line_num, row, columns) for row in table if any(field.strip() for field in row))
    except csv.Error as error:
        raise PartUnreadable(f"line {table.line_num} is not CSV ({error})") from error
    return _list(rows, (name for name, known in zip(header, columns, strict=True) if known is None))


def _csv_row(number: int, row: Sequence[str], columns: Sequence[IdentifierType | None]) -> ListedRow:
    if len(row) != len(columns):
        return ListedRow(number, problem=f"has {len(row)} fields where the header has {len(columns)}")
    return _row(number, ((known, field) for known, field in zip(columns, row, strict=True) if known is not None))


def _parse_ndjson(text: str) -> SerialList:
    others: dict[str, None] = {}
    lines = enumerate(io.StringIO(text, newline=None), start=1)
    rows = tuple(_json_row(number, line, others) for number, line in lines if line.strip())
    return _list(rows, others)


def _list(rows: tuple[ListedRow, ...], others: Iterable[str]) -> SerialList:
    """Tell the columns that name no hardware by those that name a place, and those that nobody knows."""
    names = [name.strip() for name in others]
    places = tuple(name for name in names if _bare(name) in PLACES)
    return SerialList(rows, tuple(name for name in names if name not in places), places)


def _json_row(number: int, line: str, others: dict[str, None]) -> ListedRow:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return ListedRow(number, problem="is not JSON")
    if not isinstance(found, dict):
        return ListedRow(number, problem="is not a JSON object")
    others.update(dict.fromkeys(name.strip() for name in found if _known(name) is None))
    named = {name: value for name, value in found.items() if _known(name) is not None and value is not None}
    for name, value in named.items():
        if not isinstance(value, str):
            return ListedRow(number, problem=f"{name.strip()} must be text: a number has lost its leading zeros")
    return _row(number, _typed(named))


def _typed(named: Mapping[str, str]) -> Iterator[tuple[IdentifierType, str]]:
    for name, value in named.items():
        if known := _known(name):
            yield known, value


def _row(number: int, fields: Iterable[tuple[IdentifierType, str]]) -> ListedRow:
    """Take a row's values to the character, blanks around them aside; words that fill a gap are none."""
    named: dict[IdentifierType, str] = {}
    for type_, field in fields:
        value = field.strip()
        if is_placeholder(value):
            continue
        if reason := why_unusable(type_, value):
            return ListedRow(number, problem=f"the {type_} {shown(value)} names nothing, because it {reason}")
        if named.setdefault(type_, value) != value:
            return ListedRow(number, problem=f"says two things about {type_}: {shown(named[type_])} and {shown(value)}")
    if not named:
        return ListedRow(number, problem="has neither a serial nor a UUID")
    return ListedRow(number, tuple(named.items()))


def _known(name: str) -> IdentifierType | None:
    return NAMES.get(_bare(name))


def _bare(name: str) -> str:
    return _UNIT.sub("", name.strip()).strip().casefold()
