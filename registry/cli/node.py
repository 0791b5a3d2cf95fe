# SPDX-License-Identifier: Apache-2.0
"""What is known of a node?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from registry.cli.connection import Session, speaks_http
from registry.cli.kinds import given
from registry.cli.lists import filtered, limited, show_list
from registry.cli.output import print_decision, print_facts, print_json, print_table

EPILOG = """\b
Examples:
  pratique node list --state held
  pratique node show node-a
  pratique node retire node-a --reason "returned to the provider"
"""


@click.group(epilog=EPILOG)
def node() -> None:
    """What is known of a node; retire one that will not come back."""


@node.command("list", epilog=EPILOG)
@filtered("state", "profile", "zone")
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
    """Print the node NAME: its decision, and its devices slot by slot."""
    found = session.client.get("nodes", name)
    if session.is_json:
        print_json(found)
        return
    print_decision(found["admission"])
    print_facts({field: found.get(field) for field in ("state", "profile", "provider_id", "boot_id", "zone")})
    devices = found.get("devices") or ()
    rows = ([one.get(field) for field in ("slot", "kind", "serial", "uuid", "model", "state")] for one in devices)
    print_table(("SLOT", "KIND", "SERIAL", "UUID", "MODEL", "STATE"), rows)


@node.command(epilog=EPILOG)
@click.argument("name")
@click.option("--reason", help="Why; it stays in the history.")
@speaks_http
def retire(session: Session, name: str, reason: str | None) -> None:
    """Say that the node NAME will not come back. A later report of it undoes this; holds on its devices stay."""
    found = session.client.post("nodes", name, "retire", body=given(reason=reason))
    if session.is_json:
        print_json(found)
    else:
        print_facts({field: found.get(field) for field in ("name", "state", "provider_id")})


def _row(one: Mapping[str, Any]) -> tuple[object, ...]:
    passes = one.get("passes") or {}
    counted = f"{passes.get('have', 0)}/{passes.get('need', 0)}"
    return one.get("name"), one.get("state"), one.get("profile"), counted, one.get("provider_id")
