# SPDX-License-Identifier: Apache-2.0
"""What went wrong, with which device, when?"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import click

from registry.cli.connection import Session, speaks_http
from registry.cli.exits import Exit
from registry.cli.kinds import Document, Moment, given
from registry.cli.lists import filtered, limited, show_columns
from registry.cli.output import plain, print_facts, print_json
from registry.domain.times import rfc3339

EPILOG = """\b
Examples:
  pratique failure add --code xid_79 --node node-a --slot 0000:64:00.0 --message "GPU has fallen off the bus"
  pratique failure add --code dcgm_pcie --device 1654922006312
  pratique failure add --from failures.json
  pratique failure list --device 1654922006312 --state active
  pratique failure show 0198c0de-...
  pratique failure withdraw 0198c0de-... --reason "it was the neighbour's cable"
"""

COLUMNS = ("id", "code", "effect", "state", "count", "occurred_at", "node", "slot", "serial", "message")


@click.group(epilog=EPILOG)
def failure() -> None:
    """Put a fault on record; withdraw one that was none."""


@failure.command("list", epilog=EPILOG)
@filtered("failure_id", "device", "node", "slot", "code", "kind", "cause", "severity", "effect", "state", "reporter")
@limited
@speaks_http
def list_(session: Session, limit: int, **filters: str | None) -> None:
    """Print the faults, newest first."""
    show_columns(session, ("failures",), params=filters, limit=limit, columns=COLUMNS)


@failure.command(epilog=EPILOG)
@click.argument("failure_id", metavar="ID")
@speaks_http
def show(session: Session, failure_id: str) -> None:
    """Print the fault ID."""
    found = session.client.get("failures", failure_id)
    if session.is_json:
        print_json(found)
    else:
        print_facts(found)


@failure.command(epilog=EPILOG)
@click.argument("failure_id", metavar="ID")
@click.option("--reason", required=True, help="Why it was none.")
@speaks_http
def withdraw(session: Session, failure_id: str, reason: str) -> None:
    """Say that the fault ID was none. It stays in the history; a hold that it opened stays until it is released."""
    found = session.client.post("failures", failure_id, "withdraw", body={"reason": reason})
    if session.is_json:
        print_json(found)
    else:
        print_facts(found)


@failure.command(epilog=EPILOG)
@click.option("--code", help="What it was: xid_79, sxid_12028, dcgm_..., or another code.")
@click.option("--device", metavar="REF", help="Which device: serial, UUID or our id.")
@click.option("--node", metavar="NAME", help="Where it happened.")
@click.option("--slot", metavar="PCI", help="PCI address of the device at that time, with --node.")
@click.option("--occurred-at", type=Moment(), help="When; left out, now.")
@click.option("--message", help="What was seen, in its own words.")
@click.option("--failure-id", help="Id of this observation: the same again changes nothing. Left out, a new one.")
@click.option("--from", "document", type=Document(), help="JSON list of up to 1,000 failures instead.")
@speaks_http
def add(session: Session, document: object, **options: Any) -> None:
    """Record one fault, or a list of them. What the fault's code asks for happens at once."""
    answer = session.client.post("failures", body={"failures": failures_of(document, options)})
    if session.is_json:
        print_json(answer)
    else:
        for item in answer["items"]:
            known = item.get("failure") or {}
            words = (item["outcome"], item["failure_id"], known.get("code"), known.get("effect"), item.get("message"))
            click.echo("  ".join(plain(word) for word in words if word))
    if any(item["outcome"] == "refused" for item in answer["items"]):
        raise SystemExit(int(Exit.REFUSED))


def failures_of(document: object, options: dict[str, Any]) -> list[Any]:
    """Give the list to send. Raises click.UsageError when neither or both ways of saying it were used."""
    one = given(**options)
    if document is not None:
        if one:
            raise click.UsageError("--from goes without the options that describe one failure.")
        return document if isinstance(document, list) else [document]
    if "code" not in one or not ({"device", "node"} & one.keys()):
        raise click.UsageError("Say what and where: --code with --device, or with --node and --slot.")
    if "failure_id" in one and "occurred_at" not in one:
        raise click.UsageError("--failure-id goes with --occurred-at: a repeat must say the same as the first time.")
    return [{"failure_id": str(uuid.uuid4()), "occurred_at": rfc3339(datetime.now(UTC)), **one}]
