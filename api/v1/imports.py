# SPDX-License-Identifier: Apache-2.0
"""How is somebody's whole list of bad hardware put on hold? As CSV or NDJSON, row by row, each with its outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flask import Blueprint, Response, request

from api.answers import change, dry_run
from api.auth import require
from api.body import load
from api.context import actor, database, now
from api.contract import says
from api.errors import AllRefused
from api.pagination import flag, query
from api.schemas.document import listed, obj
from api.schemas.quarantines import IMPORT, REF_LENGTH
from api.schemas.shown import COUNT, FLAG, TEXT, WARNINGS, ref
from api.text import why_not_text
from registry.collectors import serial_list
from registry.collectors.serial_list import PLACE, ListedRow
from registry.domain.errors import FieldError, InvalidField, MalformedBody
from registry.domain.roles import Role
from registry.services import quarantine
from registry.services.quarantine import OpenQuarantines

bp = Blueprint("imports", __name__)

ROWS_MAX = 10_000
BATCH = 200
"""Targets in one transaction: a fraction of a second of the one writer, so that reports come in between."""

CSV, NDJSON = "text/csv", "application/x-ndjson"
LIST: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "description": "Columns or members `serial` (`gpu_serial`) and `uuid` (`gpu_uuid`); others are named and not read.",
}
PARAMETERS = frozenset({"reason", "cause", "ticket", "kind", "scope", "release_policy", "permanent", "dry_run"})
IMPORTED = obj(
    {
        "items": listed(ref("Imported")),
        "counts": {"type": "object", "additionalProperties": COUNT},
        "unknown_columns": listed(TEXT),
        "warnings": WARNINGS,
        "dry_run": FLAG,
    },
    required=("items", "counts", "unknown_columns", "warnings"),
)

Item = dict[str, Any]


@bp.post("/quarantines/import")
@says(
    {200: IMPORTED, 201: IMPORTED},
    query=PARAMETERS,
    query_shape=IMPORT,
    body={CSV: LIST, NDJSON: LIST},
    example="serial\n1654900010009\n",
    problems=("part_unreadable",),
    refused=("not_found", "device_ambiguous", "invalid_field"),
    is_change=True,
)
@require(Role.OPERATOR)
def import_list() -> Response:
    """Hold every serial and UUID of a list, seen or not. A row that cannot be used is refused with its reason and
    hinders no other. Rows are held in batches; an import that broke off is repeated, and what is held stays as it is.
    """
    parameters = query(PARAMETERS)
    is_dry = flag(parameters, "dry_run")
    kind, command = _command(parameters)
    listing = _listing()
    if is_dry:
        return dry_run(lambda: _held(listing, kind, command, is_dry=True)[1])
    return change(lambda: _held(listing, kind, command, is_dry=False), in_parts=True)


def _held(
    listing: serial_list.SerialList, kind: str, command: Mapping[str, Any], *, is_dry: bool
) -> tuple[int, dict[str, Any]]:
    """Hold what a list names, and say which status that is. Raises AllRefused when nothing is held and it was meant."""
    items = [item for row in listing.rows for item in _items(row, kind)]
    asked = [item for item in items if "outcome" not in item]
    for batch in _batches(asked):
        _hold(batch, command, is_dry=is_dry)
    counts = Counter(item["outcome"] for item in items)
    if counts and counts.keys() == {"refused"} and not is_dry:
        raise AllRefused(items)
    warnings = [{"code": "place_not_read", "message": f"{name} {PLACE}"} for name in listing.places]
    told = {"items": items, "counts": counts, "unknown_columns": list(listing.unknown), "warnings": warnings}
    return (201 if counts["opened"] else 200), told


def _command(parameters: Mapping[str, str]) -> tuple[str, Mapping[str, Any]]:
    """Read what all holds of a list have in common. Raises InvalidField."""
    given: dict[str, Any] = {name: value for name, value in parameters.items() if name != "dry_run"}
    given["permanent"] = flag(dict(parameters), "permanent")
    loaded = load(IMPORT, given)
    return loaded.pop("kind", None) or "gpu", loaded


def _listing() -> serial_list.SerialList:
    """Read the list in the body. Raises MalformedBody, PartUnreadable, InvalidField."""
    if request.mimetype not in {CSV, NDJSON}:
        raise MalformedBody(f"the list came as {request.mimetype or 'nothing'}; send it as {CSV} or {NDJSON}")
    listing = serial_list.parse(request.get_data())
    if len(listing.rows) > ROWS_MAX:
        words = f"has {len(listing.rows)} rows; at most {ROWS_MAX} are taken at once"
        raise InvalidField(f"the list {words}", errors=(FieldError("", words),))
    return listing


def _items(row: ListedRow, kind: str) -> list[Item]:
    """One item for each thing that a row names, without an outcome yet, or one that is refused."""
    problem = row.problem or next(
        (f"{type_} {why}" for type_, text in row.identifiers if (why := _why_not(text))), None
    )
    if problem is not None:
        told = {"outcome": "refused", "code": InvalidField.code, "message": f"the row {problem}"}
        return [{"row": row.number, "target": None, **told}]
    return [
        {"row": row.number, "target": {"identifier": {"kind": kind, "type": str(type_), "value": value}}}
        for type_, value in row.identifiers
    ]


def _why_not(text: str) -> str | None:
    return why_not_text(text, REF_LENGTH)


def _batches(asked: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(asked), BATCH):
        yield asked[start : start + BATCH]


def _hold(batch: Sequence[Item], command: Mapping[str, Any], *, is_dry: bool) -> None:
    """Hold one batch in one transaction, and write each outcome into its item."""
    wanted = OpenQuarantines(targets=tuple(item["target"] for item in batch), **command)
    answers = quarantine.open_quarantines(database(), wanted, actor=actor(), now=now(), dry_run=is_dry)
    for item, told in zip(batch, answers, strict=True):
        held = {"quarantine": told["quarantine"]["id"]} if "quarantine" in told else {}
        item.update({name: value for name, value in told.items() if name not in {"target", "quarantine"}} | held)
