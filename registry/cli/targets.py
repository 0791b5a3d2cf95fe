# SPDX-License-Identifier: Apache-2.0
"""How does a person name what is to be held or released, how is a hold described, and how are the outcomes shown?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from registry.cli.connection import Command, Session
from registry.cli.exits import Exit
from registry.cli.kinds import Moment, paired
from registry.cli.output import plain, print_json


def targets(command: Command) -> Command:
    """Give a command the options that name targets; `take_targets` takes them out."""
    command = click.option(
        "--identifier", multiple=True, metavar="KIND:TYPE:VALUE", help="Identifier, also one never seen."
    )(command)
    command = click.option("--node", multiple=True, metavar="NAME", help="Node, as the machine behind the name.")(
        command
    )
    return click.option("--device", multiple=True, metavar="REF", help="Device by serial, UUID or our id.")(command)


def described(command: Command) -> Command:
    """Give a command the options that say what sort of hold is meant, named as the API names them."""
    policies = click.Choice(["manual", "at_expiry", "after_passes"])
    scopes = click.Choice(["board", "unit"])
    for option in (
        click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing."),
        click.option("--expires-at", type=Moment(), help="When the hold ends, with --release-policy at_expiry."),
        click.option("--review-at", type=Moment(), help="When a person should look again."),
        click.option("--permanent", is_flag=True, help="Never again; only an admin can undo it."),
        click.option("--release-policy", type=policies, help="What ends the hold."),
        click.option("--drain", is_flag=True, help="Ask that running work be moved away too."),
        click.option("--scope", type=scopes, help="The whole board (default for a GPU), or this unit only."),
        click.option("--ticket", help="Where the work on it is tracked."),
        click.option("--cause", help="hardware, driver, platform or user."),
        click.option("--reason", required=True, help="Why; whoever meets the device next will read it."),
    ):
        command = option(command)
    return command


def take_targets(options: dict[str, Any]) -> list[dict[str, Any]]:
    """Take the target options out of all options. Raises click.BadParameter for an identifier of another form."""
    return [
        *({"device": ref} for ref in options.pop("device")),
        *({"node": name} for name in options.pop("node")),
        *({"identifier": identifier(text)} for text in options.pop("identifier")),
    ]


def identifier(text: str) -> dict[str, str]:
    """Read `KIND:TYPE:VALUE`. Raises click.BadParameter."""
    kind, rest = paired(text, ":", "KIND:TYPE:VALUE")
    name, value = paired(rest, ":", "KIND:TYPE:VALUE")
    return {"kind": kind, "type": name, "value": value}


def dry(options: dict[str, Any]) -> dict[str, str]:
    """Take `--dry-run` out of all options, as a query parameter."""
    return {"dry_run": "true"} if options.pop("dry_run") else {}


def some(named: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give the targets back. Raises click.UsageError when there are none."""
    if not named:
        raise click.UsageError("Name at least one target: --device, --node or --identifier.")
    return named


def word_for(named: Sequence[Mapping[str, Any]]) -> str:
    """Give what a person has to type to mean these targets: the one's own name, or how many there are."""
    if len(named) > 1:
        return f"{len(named)} targets"
    (value,) = named[0].values()
    return str(value["value"] if isinstance(value, dict) else value)


def in_short(target: Mapping[str, Any] | None) -> str:
    """Write a target in words: `device 1654…`, `node node-a`, `identifier gpu:serial:1654…`."""
    named = {name: value for name, value in (target or {}).items() if value is not None}
    return " ".join(
        f"{name} {':'.join(map(str, value.values())) if isinstance(value, dict) else value}"
        for name, value in named.items()
    )


def outcome_line(item: Mapping[str, Any]) -> str:
    """Write the outcome for one target in one line."""
    held = [item["quarantine"]] if item.get("quarantine") else item.get("quarantines") or ()
    words = [item["outcome"], in_short(item.get("target")), *(one["id"] for one in held), item.get("message")]
    return "  ".join(plain(word) for word in words if word)


def show_items(session: Session, answer: Mapping[str, Any]) -> None:
    """Print the outcome for each target. Raises SystemExit when one was refused."""
    if session.is_json:
        print_json(answer)
    else:
        for item in answer["items"]:
            click.echo(outcome_line(item))
        if answer.get("dry_run"):
            click.echo("Dry run: nothing was changed.", err=True)
    if any(item["outcome"] == "refused" for item in answer["items"]):
        raise SystemExit(int(Exit.REFUSED))
