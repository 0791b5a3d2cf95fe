# SPDX-License-Identifier: Apache-2.0
"""How is a whole list of bad hardware put on hold? Row by row, each with its outcome, and as often as one likes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import click

from registry.cli.confirm import confirmable, consent
from registry.cli.connection import Session, end_with, speaks_http
from registry.cli.exits import Exit
from registry.cli.kinds import given
from registry.cli.output import plain, print_json
from registry.cli.progress import progress
from registry.cli.targets import described, dry, in_short
from registry.client import Client, ClientError, ProblemAnswer
from registry.collectors.serial_list import PLACE, ListedRow, parse
from registry.domain.errors import PartUnreadable

BATCH = 200
"""Targets in one request: a fraction of a second of the server's one writer, so that reports come in between."""

EPILOG = """\b
A CSV list has a header with serial (or gpu_serial), uuid (or gpu_uuid), or both; NDJSON has the same members, as text.
Case and blanks in these names make no difference; other columns are named and not read. A row with a serial that a
spreadsheet has written in exponent form is refused, the others are not. Importing a list again changes nothing.

\b
Examples:
  pratique quarantine import bad-serials.csv --reason "on the provider's list" --ticket OPS-7
  jq -c '.[]' bad.json | pratique quarantine import - --reason "recalled" --dry-run
"""

Item = dict[str, Any]


@click.command("import", epilog=EPILOG)
@click.argument("file", type=click.File("rb"))
@click.option(
    "--kind", type=click.Choice(["gpu", "efa"]), default="gpu", show_default=True, help="What the list names."
)
@described
@confirmable
@speaks_http
def import_(session: Session, file: Any, kind: str, *, yes: bool, **options: Any) -> None:
    """Hold every serial and UUID of a list in FILE, seen or not; - is standard input.

    Ends with 1 when a row was refused. An import that broke off can be repeated: what is held already stays as it is.
    """
    params = dry(options)
    try:
        listed = parse(file.read())
    except PartUnreadable as error:
        raise click.BadParameter(error.detail, param_hint="FILE") from error
    for name in listed.unknown:
        click.echo(f"warning: the column {plain(name)} is not known and was not read", err=True)
    for name in listed.places:
        click.echo(f"warning: the column {plain(name)} {PLACE}", err=True)
    items = [item for row in listed.rows for item in items_of(row, kind)]
    asked = [item for item in items if "outcome" not in item]
    if options["permanent"] and asked and not params:
        consent("A permanent hold is for ever: only an admin can undo it.", f"{len(asked)} targets", yes=yes)
    stopped = send(session.client, asked, given(**options), params)
    show(session, items, listed.unknown, stopped, is_dry=bool(params))


def items_of(row: ListedRow, kind: str) -> list[Item]:
    """Give one item for each thing a row names, without an outcome yet, or one that is refused."""
    if row.problem is not None:
        return [{"row": row.number, "target": None, "outcome": "refused", "message": f"the row {row.problem}"}]
    return [
        {"row": row.number, "target": {"identifier": {"kind": kind, "type": str(type_), "value": value}}}
        for type_, value in row.identifiers
    ]


def send(
    client: Client, asked: Sequence[Item], hold: Mapping[str, Any], params: Mapping[str, str]
) -> ClientError | None:
    """Put everything asked for on hold, batch by batch, and write each outcome into its item.

    Returns what stopped it, None when all was answered; items that were not come without an outcome.
    """
    done = 0
    with progress("importing", len(asked)) as advance:
        for batch in batches(asked):
            try:
                answers = hold_batch(client, [item["target"] for item in batch], hold, params)
            except ClientError as error:
                return error
            for item, answered in zip(batch, answers, strict=True):
                held = {"quarantine": answered["quarantine"]["id"]} if answered.get("quarantine") else {}
                told = {name: value for name, value in answered.items() if name not in {"target", "quarantine"}}
                item.update(told | held)
            done += len(batch)
            advance(done)
    return None


def hold_batch(
    client: Client, targets: Sequence[Any], hold: Mapping[str, Any], params: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Send one batch. That all of it was refused is an outcome too. Raises ClientError."""
    try:
        answer: Mapping[str, Any] = client.post("quarantines", body={"targets": targets, **hold}, params=params)
    except ProblemAnswer as error:
        if not error.body.get("items"):
            raise
        answer = error.body
    return list(answer["items"])


def batches(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Cut a list into batches."""
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch


def show(
    session: Session, items: Sequence[Item], unknown: Sequence[str], stopped: ClientError | None, *, is_dry: bool
) -> None:
    """Print the outcomes, row by row, and how many there are of each. Raises SystemExit unless all were held."""
    told = [item for item in items if "outcome" in item]
    counts = Counter(item["outcome"] for item in told)
    if session.is_json:
        document = {"items": told, "counts": counts, "unknown_columns": unknown, "unanswered": len(items) - len(told)}
        print_json({**document, "dry_run": True} if is_dry else document)
    else:
        for item in told:
            words = (item["outcome"], in_short(item["target"]), item.get("quarantine"), item.get("message"))
            click.echo("  ".join([f"row {item['row']}", *(plain(word) for word in words if word)]))
    summary = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "nothing"
    click.echo(f"{summary}{' (dry run: nothing was changed)' if is_dry else ''}", err=True)
    if stopped is not None:
        click.echo(f"pratique: {len(items) - len(told)} were not answered; import the list again", err=True)
        end_with(stopped, is_json=False)
    if counts["refused"]:
        raise SystemExit(int(Exit.REFUSED))
