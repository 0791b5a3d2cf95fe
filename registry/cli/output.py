# SPDX-License-Identifier: Apache-2.0
"""How is an answer shown? As JSON for programs, or as lines and columns for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click


def print_json(document: object) -> None:
    """Print one JSON document, as it came."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def plain(value: object) -> str:
    """Write a value for a person: nothing as `-`, and no character that could steer the reader's terminal.

    Names and models come from machines that may be broken or hostile.
    """
    if value in (None, "", [], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (dict, list)):
        value = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return "".join(sign if sign.isprintable() else "?" for sign in str(value))


def short_time(value: object) -> str:
    """Write an RFC 3339 time of the server to the second; anything else as `plain` does."""
    text = plain(value)
    return f"{text[:19]}Z" if len(text) > 20 and text.endswith("Z") and text[10] == "T" else text


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print columns, two blanks apart. Nothing is cut: a serial of which half is missing is worth nothing."""
    cells = [[short_time(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    click.secho(_line(headings, widths), bold=True)
    for row in cells:
        click.echo(_line(row, widths))


def print_facts(facts: Mapping[str, object]) -> None:
    """Print what is known, one fact a line, lists of things below their name; what is not known is left out."""
    known = {name: value for name, value in facts.items() if value not in (None, "", [], {})}
    width = max(map(len, known), default=0)
    for name, value in known.items():
        if not isinstance(value, list):
            click.echo(f"{name:<{width}}  {short_time(value)}")
            continue
        click.echo(name)
        for one in value:
            click.echo(f"  {in_words(one) if isinstance(one, dict) else plain(one)}")


def in_words(facts: Mapping[str, object]) -> str:
    """Write the simple facts of a thing in one line; what is made of parts itself is for `--output json`."""
    simple = {name: value for name, value in facts.items() if not isinstance(value, (dict, list))}
    return "  ".join(f"{name}={short_time(value)}" for name, value in simple.items() if value not in (None, ""))


def print_decision(decision: Mapping[str, Any]) -> None:
    """Print a decision with every reason, each with what a person can do."""
    passes = decision["passes"]
    verdict = "admitted" if decision["admitted"] else f"not admitted ({plain(decision['disposition'])})"
    colour = "green" if decision["admitted"] else "red"
    click.secho(
        f"{plain(decision['node'])}: {verdict}, {passes['have']} of {passes['need']} passes", fg=colour, bold=True
    )
    for reason in decision["reasons"]:
        click.echo(f"  {plain(reason['code'])}: {plain(reason['message'])}")
        if reason.get("retry_at"):
            click.echo(f"    ask again at {short_time(reason['retry_at'])}")


def print_events(events: Iterable[Mapping[str, Any]]) -> None:
    """Print history, one entry a line: number, time, type, who, and the simple facts of the entry."""
    for event in events:
        actor = event["actor"]
        who = f"{plain(actor['kind'])}:{plain(actor['name'])}"
        head = f"{event['sequence']:>8}  {short_time(event['at'])}  {plain(event['type']):<20}  {who:<20}"
        click.echo(f"{head}  {in_words(event['data'])}")


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
