# SPDX-License-Identifier: Apache-2.0
"""What is known of a node?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from registry.cli.confirm import confirmable, consent
from registry.cli.connection import Session, speaks_http
from registry.cli.kinds import Moment, given
from registry.cli.lists import filtered, limited, ordered, show_history, show_list
from registry.cli.output import print_decision, print_facts, print_json, print_table

EPILOG = """\b
Examples:
  pratique node list --state held
  pratique node show node-a
  pratique node history node-a --order desc
  pratique node maintenance node-a --until 2026-12-01T06:00:00Z --reason "new firmware"
  pratique node maintenance node-a --end --reason "firmware is in"
  pratique node waive node-a --kind gpu --count 7 --until 2026-12-01T06:00:00Z --reason "one GPU is away for repair"
  pratique node retire node-a --reason "returned to the provider"
"""

LONG_OVER = "1970-01-01T00:00:00Z"
"""A time in the past, which ends a maintenance or a waiver."""


@click.group(epilog=EPILOG)
def node() -> None:
    """What is known of a node; keep it out for a while, accept fewer devices, retire it."""


@node.command("list", epilog=EPILOG)
@filtered("name", "state", "profile", "zone", "provider_id", "boot_id")
@limited
@speaks_http
def list_(session: Session, limit: int, **filters: str | None) -> None:
    """Print the nodes, newest first."""
    headings = ("NAME", "STATE", "PROFILE", "PASSES", "PROVIDER ID")
    show_list(session, ("nodes",), params=filters, limit=limit, headings=headings, row=_row)


@node.command(epilog=EPILOG)
@click.argument("name")
@speaks_http
def show(session: Session, name: str) -> None:
    """Print the node NAME: its decision, its conditions, and its devices slot by slot."""
    found = session.client.get("nodes", name)
    if session.is_json:
        print_json(found)
        return
    print_decision(found["admission"])
    print_facts({field: found.get(field) for field in ("state", "profile", "provider_id", "boot_id", "zone")})
    troubles = found.get("conditions") or ()
    if troubles:
        print_table(("CONDITION", "STATUS", "SINCE", "DEVICE", "REASON"), map(_condition, troubles))
    devices = found.get("devices") or ()
    rows = ([one.get(field) for field in ("slot", "kind", "serial", "uuid", "model", "state")] for one in devices)
    print_table(("SLOT", "KIND", "SERIAL", "UUID", "MODEL", "STATE"), rows)


@node.command(epilog=EPILOG)
@click.argument("name")
@filtered("type", "actor", "since", "until")
@ordered
@limited
@speaks_http
def history(session: Session, name: str, order: str, limit: int, **filters: str | None) -> None:
    """Print everything that happened on the node NAME, under every instance."""
    show_history(session, ("nodes", name, "history"), order=order, limit=limit, filters=filters)


@node.command(epilog=EPILOG)
@click.argument("name")
@click.option("--until", type=Moment(), help="How long.")
@click.option("--end", is_flag=True, help="End it now.")
@click.option("--reason", required=True, help="Why; it stays in the history.")
@speaks_http
def maintenance(session: Session, name: str, until: str | None, reason: str, *, end: bool) -> None:
    """Keep the node NAME out of work for a while, or end that."""
    body = {"until": end_or(until, is_end=end), "reason": reason}
    show_node(session, session.client.post("nodes", name, "maintenance", body=body))


@node.command(epilog=EPILOG)
@click.argument("name")
@click.option("--kind", type=click.Choice(["gpu", "efa"]), required=True, help="Which kind of device.")
@click.option("--count", type=click.IntRange(min=0), required=True, help="How many are expected meanwhile.")
@click.option("--until", type=Moment(), help="How long.")
@click.option("--end", is_flag=True, help="End it now.")
@click.option("--reason", required=True, help="Why; it stays in the history.")
@speaks_http
def waive(session: Session, name: str, until: str | None, *, end: bool, **options: Any) -> None:
    """Expect another count of devices on the node NAME for a while, or end that."""
    body = {**options, "until": end_or(until, is_end=end)}
    show_node(session, session.client.post("nodes", name, "waivers", body=body))


@node.command(epilog=EPILOG)
@click.argument("name")
@click.option("--reason", help="Why; it stays in the history.")
@confirmable
@speaks_http
def retire(session: Session, name: str, reason: str | None, *, yes: bool) -> None:
    """Say that the node NAME will not come back. A later report of it undoes this; holds on its devices stay."""
    consent(f"{name} will not be admitted again unless it reports anew.", name, yes=yes)
    show_node(session, session.client.post("nodes", name, "retire", body=given(reason=reason)))


def end_or(until: str | None, *, is_end: bool) -> str:
    """Give the time to send. Raises click.UsageError when neither or both ways of saying it were used."""
    if is_end == (until is not None):
        raise click.UsageError("Say how long with --until, or --end.")
    return until or LONG_OVER


def show_node(session: Session, found: Mapping[str, Any]) -> None:
    """Print what became of a node."""
    if session.is_json:
        print_json(found)
    else:
        print_facts({name: value for name, value in found.items() if not isinstance(value, (dict, list))})


def _condition(one: Mapping[str, Any]) -> tuple[object, ...]:
    named = one.get("device") or {}
    device = next((named[field] for field in ("serial", "uuid", "slot", "id") if named.get(field)), None)
    return one.get("name"), one.get("status"), one.get("since"), device, one.get("reason")


def _row(one: Mapping[str, Any]) -> tuple[object, ...]:
    passes = one.get("passes") or {}
    counted = f"{passes.get('have', 0)}/{passes.get('need', 0)}"
    return one.get("name"), one.get("state"), one.get("profile"), counted, one.get("provider_id")
