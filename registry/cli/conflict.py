# SPDX-License-Identifier: Apache-2.0
"""Where does what was seen contradict what is known, and who is right?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from registry.cli.connection import Session, speaks_http
from registry.cli.lists import filtered, limited, show_list
from registry.cli.output import print_facts, print_json

EPILOG = """\b
Examples:
  pratique conflict list --state open
  pratique conflict show 0198c0de-...
  pratique conflict resolve 0198c0de-... --as different_devices --reason "both boards seen on the bench"
"""

COLUMNS = ("id", "state", "rule", "kind", "opened_at", "nodes", "reason")


@click.group(epilog=EPILOG)
def conflict() -> None:
    """Contradictions about which device is which."""


@conflict.command("list", epilog=EPILOG)
@filtered("state", "rule", "kind", "node", "device")
@limited
@speaks_http
def list_(session: Session, limit: int, **filters: str | None) -> None:
    """Print the conflicts, newest first. No node in an open one is admitted."""
    headings = [name.replace("_", " ").upper() for name in COLUMNS]
    show_list(
        session,
        ("conflicts",),
        params=filters,
        limit=limit,
        headings=headings,
        row=_row,
    )


@conflict.command(epilog=EPILOG)
@click.argument("conflict_id", metavar="ID")
@speaks_http
def show(session: Session, conflict_id: str) -> None:
    """Print the conflict ID."""
    found = session.client.get("conflicts", conflict_id)
    if session.is_json:
        print_json(found)
    else:
        print_facts(found)


@conflict.command(epilog=EPILOG)
@click.argument("conflict_id", metavar="ID")
@click.option(
    "--as", "ruling", type=click.Choice(["same_device", "different_devices"]), required=True, help="What is true."
)
@click.option("--reason", required=True, help="How you know.")
@speaks_http
def resolve(session: Session, conflict_id: str, ruling: str, reason: str) -> None:
    """Rule on the conflict ID. Nothing is merged: the records keep what was seen."""
    found = session.client.post("conflicts", conflict_id, "resolve", body={"reason": reason, "as": ruling})
    if session.is_json:
        print_json(found)
    else:
        print_facts(found)


def _row(one: Mapping[str, Any]) -> list[object]:
    return [", ".join(one["nodes"]) if name == "nodes" else one.get(name) for name in COLUMNS]
