# SPDX-License-Identifier: Apache-2.0
"""What is on hold, since when and why; and how is it held or released?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from registry.cli.connection import Command, Session, speaks_http
from registry.cli.exits import Exit
from registry.cli.kinds import Document, Moment, given, paired
from registry.cli.lists import filtered, limited, show_list
from registry.cli.output import plain, print_facts, print_json, short_time

EPILOG = """\b
Examples:
  pratique quarantine open --device 1654922006312 --reason "fell off the bus twice" --ticket OPS-7
  pratique quarantine open --node node-a --drain --reason "smells of smoke"
  pratique quarantine open --identifier gpu:serial:1654922006312 --reason "on the provider's list"
  pratique quarantine list --state open
  pratique quarantine release 0198c0de-... --reason "passed 24 h of burn-in"
"""


@click.group(epilog=EPILOG)
def quarantine() -> None:
    """Hold hardware or nodes, and release them."""


def targets(command: Command) -> Command:
    """Give a command the options that name targets; it receives them as `targets`, in the shape of the API."""
    command = click.option(
        "--identifier", multiple=True, metavar="KIND:TYPE:VALUE", help="Identifier, also one never seen."
    )(command)
    command = click.option("--node", multiple=True, metavar="NAME", help="Node, as the machine behind the name.")(
        command
    )
    return click.option("--device", multiple=True, metavar="REF", help="Device by serial, UUID or our id.")(command)


def take_targets(options: dict[str, Any]) -> list[dict[str, Any]]:
    """Take the target options out of all options. Raises click.BadParameter for an identifier of another form."""
    return [
        *({"device": ref} for ref in options.pop("device")),
        *({"node": name} for name in options.pop("node")),
        *({"identifier": _identifier(text)} for text in options.pop("identifier")),
    ]


def dry(options: dict[str, Any]) -> dict[str, str]:
    """Take `--dry-run` out of all options, as a query parameter."""
    return {"dry_run": "true"} if options.pop("dry_run") else {}


@quarantine.command("open", epilog=EPILOG)
@targets
@click.option("--reason", required=True, help="Why; whoever meets the device next will read it.")
@click.option("--cause", help="hardware, driver, platform or user.")
@click.option("--ticket", help="Where the work on it is tracked.")
@click.option(
    "--scope", type=click.Choice(["board", "unit"]), help="The whole board (default for a GPU), or this unit only."
)
@click.option("--match", type=click.Choice(["name"]), help="Hold a node by its name, whatever machine bears it.")
@click.option("--drain", is_flag=True, help="Ask that running work be moved away too.")
@click.option(
    "--release-policy", type=click.Choice(["manual", "at_expiry", "after_passes"]), help="What ends the hold."
)
@click.option("--permanent", is_flag=True, help="Never again; only an admin can undo it.")
@click.option("--review-at", type=Moment(), help="When a person should look again.")
@click.option("--expires-at", type=Moment(), help="When the hold ends, with --release-policy at_expiry.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
@speaks_http
def open_(session: Session, **options: Any) -> None:
    """Hold devices, identifiers or nodes. A node that carries one of them is not admitted from then on."""
    params = dry(options)
    body = {"targets": some(take_targets(options)), **given(**options)}
    show_items(session, session.client.post("quarantines", body=body, params=params))


@quarantine.command("list", epilog=EPILOG)
@filtered("state", "owner", "device", "node", "cause", "ticket")
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
@speaks_http
def release(session: Session, quarantine_id: str | None, **options: Any) -> None:
    """Release the hold ID, or every hold on the named targets. Passes then begin anew."""
    params, named = dry(options), take_targets(options)
    if quarantine_id is not None and named:
        raise click.UsageError("Give the ID of one hold, or targets, not both.")
    if quarantine_id is None:
        if options["evidence"] is not None:
            raise click.UsageError("--evidence goes with the ID of one hold.")
        body = {"targets": some(named), "reason": options["reason"]}
        show_items(session, session.client.post("quarantines", "release", body=body, params=params))
        return
    found = session.client.post("quarantines", quarantine_id, "release", body=given(**options), params=params)
    if session.is_json:
        print_json(found)
    else:
        print_facts(found)


def show_items(session: Session, answer: Mapping[str, Any]) -> None:
    """Print the outcome for each target. Raises SystemExit when one was refused."""
    if session.is_json:
        print_json(answer)
    else:
        for item in answer["items"]:
            held = [item["quarantine"]] if item.get("quarantine") else item.get("quarantines") or ()
            words = [item["outcome"], in_short(item.get("target")), *(one["id"] for one in held), item.get("message")]
            click.echo("  ".join(plain(word) for word in words if word))
        if answer.get("dry_run"):
            click.echo("Dry run: nothing was changed.", err=True)
    if any(item["outcome"] == "refused" for item in answer["items"]):
        raise SystemExit(int(Exit.REFUSED))


def some(named: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give the targets back. Raises click.UsageError when there are none."""
    if not named:
        raise click.UsageError("Name at least one target: --device, --node or --identifier.")
    return named


def in_short(target: Mapping[str, Any] | None) -> str:
    """Write a target in words: `device 1654…`, `node node-a`, `identifier gpu:serial:1654…`."""
    named = {name: value for name, value in (target or {}).items() if value is not None}
    return " ".join(
        f"{name} {':'.join(map(str, value.values())) if isinstance(value, dict) else value}"
        for name, value in named.items()
    )


def _identifier(text: str) -> dict[str, str]:
    kind, rest = paired(text, ":", "KIND:TYPE:VALUE")
    name, value = paired(rest, ":", "KIND:TYPE:VALUE")
    return {"kind": kind, "type": name, "value": value}


def _row(one: Mapping[str, Any]) -> tuple[object, ...]:
    opened = short_time(one.get("opened_at"))
    return one.get("id"), one.get("state"), one.get("owner"), opened, in_short(one.get("target")), one.get("reason")
