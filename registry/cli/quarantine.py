# SPDX-License-Identifier: Apache-2.0
"""What is on hold, since when and why; and how is it held or released?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from registry.cli.confirm import confirmable, consent
from registry.cli.connection import Session, speaks_http
from registry.cli.kinds import Document, Moment, given
from registry.cli.lists import filtered, limited, show_list
from registry.cli.output import print_facts, print_json, short_time
from registry.cli.quarantine_import import import_
from registry.cli.targets import described, dry, in_short, show_items, some, take_targets, targets, word_for

EPILOG = """\b
Examples:
  pratique quarantine open --device 1654922006312 --reason "fell off the bus twice" --ticket OPS-7
  pratique quarantine open --node node-a --drain --reason "smells of smoke"
  pratique quarantine open --identifier gpu:serial:1654922006312 --reason "on the provider's list"
  pratique quarantine import bad-serials.csv --reason "on the provider's list"
  pratique quarantine list --state open
  pratique quarantine release 0198c0de-... --reason "passed 24 h of burn-in"
  pratique quarantine review 0198c0de-... --reason "the maker asks for a diagnostic" --ticket RMA-7
"""


FILTERS = ("state", "device", "node", "owner", "cause", "ticket", "scope", "match", "release_policy", "target_kind")


@click.group(epilog=EPILOG)
def quarantine() -> None:
    """Hold hardware or nodes, and release them."""


@quarantine.command("open", epilog=EPILOG)
@targets
@described
@click.option("--match", type=click.Choice(["name"]), help="Hold a node by its name, whatever machine bears it.")
@confirmable
@speaks_http
def open_(session: Session, *, yes: bool, **options: Any) -> None:
    """Hold devices, identifiers or nodes. A node that carries one of them is not admitted from then on."""
    params, named = dry(options), some(take_targets(options))
    if options["permanent"] and not params:
        consent("A permanent hold is for ever: only an admin can undo it.", word_for(named), yes=yes)
    body = {"targets": named, **given(**options)}
    show_items(session, session.client.post("quarantines", body=body, params=params))


@quarantine.command("list", epilog=EPILOG)
@filtered(*FILTERS)
@limited
@speaks_http
def list_(session: Session, limit: int, **filters: str | None) -> None:
    """Print the holds, newest first."""
    headings = ("ID", "STATE", "OWNER", "OPENED", "TARGET", "REASON")
    show_list(session, ("quarantines",), params=filters, limit=limit, headings=headings, row=_row)


@quarantine.command(epilog=EPILOG)
@click.argument("quarantine_id", metavar="ID")
@speaks_http
def show(session: Session, quarantine_id: str) -> None:
    """Print the hold ID."""
    found = session.client.get("quarantines", quarantine_id)
    if session.is_json:
        print_json(found)
    else:
        print_facts(found)


@quarantine.command(epilog=EPILOG)
@click.argument("quarantine_id", metavar="[ID]", required=False)
@targets
@click.option("--reason", required=True, help="Why it may go back to work.")
@click.option("--evidence", type=Document(), help="JSON that proves it; with an ID only.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
@confirmable
@speaks_http
def release(session: Session, quarantine_id: str | None, *, yes: bool, **options: Any) -> None:
    """Release the hold ID, or every hold on the named targets. Passes then begin anew.

    A hold that is permanent, or that keeps several devices of one board, is released only after its serial was typed.
    """
    params, named = dry(options), take_targets(options)
    path, body = release_of(quarantine_id, named, options)
    if not params and not yes:
        ask_about(session.client.post(*path, body=body, params={"dry_run": "true"}), named)
    answer = session.client.post(*path, body=body, params=params)
    if "items" in answer:
        show_items(session, answer)
    elif session.is_json:
        print_json(answer)
    else:
        print_facts(answer)


@quarantine.command(epilog=EPILOG)
@click.argument("quarantine_id", metavar="ID")
@click.option("--reason", required=True, help="What was looked at, and why the hold goes on.")
@click.option("--review-at", type=Moment(), help="When to look next.")
@click.option("--ticket", help="The ticket that it goes under from now on.")
@speaks_http
def review(session: Session, quarantine_id: str, **options: Any) -> None:
    """Note that the hold ID was looked at again and goes on, with a new date, a ticket, or both."""
    answer = session.client.post("quarantines", quarantine_id, "review", body=given(**options))
    if session.is_json:
        print_json(answer)
    else:
        print_facts(answer)


quarantine.add_command(import_)


def release_of(
    quarantine_id: str | None, named: list[dict[str, Any]], options: Mapping[str, Any]
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Give address and body of a release. Raises click.UsageError when neither or both ways of naming were used."""
    if quarantine_id is not None:
        if named:
            raise click.UsageError("Give the ID of one hold, or targets, not both.")
        return ("quarantines", quarantine_id, "release"), given(**options)
    if options["evidence"] is not None:
        raise click.UsageError("--evidence goes with the ID of one hold.")
    return ("quarantines", "release"), {"targets": some(named), "reason": options["reason"]}


def ask_about(tried: Mapping[str, Any], named: list[dict[str, Any]]) -> None:
    """Have a person agree to a release that was tried out, where it lets go of more than meets the eye."""
    listed = tried.get("items", [{"quarantines": [tried]}])
    held = [hold for item in listed for hold in item.get("quarantines") or ()]
    word = word_for(named) if named else serial_of(held[0])
    if any(hold["permanent"] for hold in held):
        consent("This hold is permanent: somebody meant it for ever.", word, yes=False)
        return
    most = max((len(hold["devices"]) for hold in held if hold["scope"] == "board"), default=0)
    if most > 1:
        consent(f"This lets go of a whole board with {most} devices.", word, yes=False)


def serial_of(hold: Mapping[str, Any]) -> str:
    """Give the name that a person knows the held thing by: its serial, else another identifier, else its target."""
    values = {one["type"]: str(one["value"]) for one in reversed(hold["identifiers"])}
    return values.get("serial") or next(iter(values.values()), None) or word_for([hold["target"]])


def _row(one: Mapping[str, Any]) -> tuple[object, ...]:
    opened = short_time(one.get("opened_at"))
    return one.get("id"), one.get("state"), one.get("owner"), opened, in_short(one.get("target")), one.get("reason")
