# SPDX-License-Identifier: Apache-2.0
"""How is a list or a history shown? With a limit that says so when it cuts, in columns or as one document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import click

from registry.cli.connection import Command, Session
from registry.cli.output import print_events, print_json, print_table

Row = Callable[[Mapping[str, Any]], Sequence[object]]


def limited(command: Command) -> Command:
    """Give a command the option `--limit`."""
    explanation = "Most items to show; 0 shows all."
    return click.option("--limit", type=click.IntRange(min=0), default=100, show_default=True, help=explanation)(
        command
    )


def filtered(*names: str) -> Callable[[Command], Command]:
    """Give a command one option for each field a list can be narrowed by."""

    def decorate(command: Command) -> Command:
        for name in reversed(names):
            command = click.option(
                f"--{name.replace('_', '-')}", name, metavar="VALUE", help=f"Only with this {name}."
            )(command)
        return command

    return decorate


def fetch(
    session: Session, path: Sequence[str], params: Mapping[str, str | None], limit: int
) -> tuple[list[dict[str, Any]], bool]:
    """Read up to `limit` items, and say whether there are more."""
    asked = {name: value for name, value in params.items() if value is not None}
    if not limit:
        return list(session.client.items(*path, params=asked)), False
    found = list(islice(session.client.items(*path, params=asked, limit=limit + 1), limit + 1))
    return found[:limit], len(found) > limit


def show_list(
    session: Session,
    path: Sequence[str],
    *,
    params: Mapping[str, str | None],
    limit: int,
    headings: Sequence[str],
    row: Row,
) -> None:
    """Print a list: columns for people, `{"items": [...], "more": true|false}` for programs."""
    items, is_cut = fetch(session, path, params, limit)
    if session.is_json:
        print_json({"items": items, "more": is_cut})
        return
    print_table(headings, map(row, items))
    tell_cut(limit, is_cut=is_cut)


def show_columns(
    session: Session,
    path: Sequence[str],
    *,
    params: Mapping[str, str | None],
    limit: int,
    columns: Sequence[str],
) -> None:
    """Print a list whose columns are fields of its items, named alike."""
    headings = [name.replace("_", " ").upper() for name in columns]
    show_list(session, path, params=params, limit=limit, headings=headings, row=lambda one: [*map(one.get, columns)])


def show_history(
    session: Session, path: Sequence[str], *, order: str, limit: int, filters: Mapping[str, str | None] | None = None
) -> None:
    """Print a history: a line for each event for people, one document for programs."""
    events, is_cut = fetch(session, path, {**(filters or {}), "order": order}, limit)
    if session.is_json:
        print_json({"items": events, "more": is_cut})
        return
    print_events(events)
    tell_cut(limit, is_cut=is_cut)


def tell_cut(limit: int, *, is_cut: bool) -> None:
    """Say on standard error that there was more."""
    if is_cut:
        click.echo(f"(cut after {limit}; --limit 0 shows all)", err=True)


def ordered(command: Command) -> Command:
    """Give a command the option `--order`."""
    choice = click.Choice(["asc", "desc"])
    return click.option("--order", type=choice, default="asc", show_default=True, help="Oldest or newest first.")(
        command
    )
