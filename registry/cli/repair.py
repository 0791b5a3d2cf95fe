# SPDX-License-Identifier: Apache-2.0
"""What should be repaired, and who does it?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from registry.cli.connection import Session, speaks_http
from registry.cli.kinds import given
from registry.cli.lists import filtered, limited, show_list
from registry.cli.output import plain, print_facts, print_json, print_table

EPILOG = """\b
Examples:
  pratique repair list --state ready
  pratique repair claim 0198c0de-... --holder robot-1
  pratique repair complete 0198c0de-... --holder robot-1 --token 1 --outcome done
  pratique repair cancel 0198c0de-... --reason "the board is on its way"
  pratique repair budget
  pratique repair stop --reason "a storm"
  pratique repair resume --reason "the storm is over"
  pratique repair resume --condition gpu.ecc --reason "the check is right"
"""

COLUMNS = ("id", "action", "state", "node", "device", "condition", "planned_at", "claimed_by", "waits_for")

_HOLDER = click.option("--holder", help="Tells programs apart that share a token of this service.")
_REASON = click.option("--reason", required=True, help="Why.")


@click.group(epilog=EPILOG)
def repair() -> None:
    """What should be repaired. Nothing is carried out here: claim it, do it, and say how it went."""


@repair.command("list", epilog=EPILOG)
@filtered("state", "action", "node", "device", "condition", "outcome", "claimed_by")
@limited
@speaks_http
def list_(session: Session, limit: int, **filters: str | None) -> None:
    """Print the repairs, newest first, those that are over too."""
    headings = [name.replace("_", " ").upper() for name in COLUMNS]
    show_list(session, ("repairs",), params=filters, limit=limit, headings=headings, row=_row)


@repair.command(epilog=EPILOG)
@click.argument("repair_id", metavar="ID")
@speaks_http
def show(session: Session, repair_id: str) -> None:
    """Print the repair ID."""
    _print(session, session.client.get("repairs", repair_id))


@repair.command(epilog=EPILOG)
@click.argument("repair_id", metavar="ID")
@_HOLDER
@click.option("--token", type=click.IntRange(min=1), help="The token of your claim, to keep it for longer.")
@speaks_http
def claim(session: Session, repair_id: str, **options: Any) -> None:
    """Take the repair ID up: nobody else may until the lease runs out. Keep the token that is printed."""
    _print(session, session.client.post("repairs", repair_id, "claim", body=given(**options)))


@repair.command(epilog=EPILOG)
@click.argument("repair_id", metavar="ID")
@click.option("--outcome", type=click.Choice(["done", "failed"]), required=True, help="How it went.")
@click.option("--reason", help="What there is to say about it.")
@_HOLDER
@click.option("--token", type=click.IntRange(min=1), help="The token of your claim.")
@speaks_http
def complete(session: Session, repair_id: str, **options: Any) -> None:
    """Say that the repair ID, which you have claimed, was carried out or could not be."""
    _print(session, session.client.post("repairs", repair_id, "complete", body=given(**options)))


@repair.command(epilog=EPILOG)
@click.argument("repair_id", metavar="ID")
@_REASON
@click.option(
    "--outcome",
    type=click.Choice(["by_person", "recovered", "superseded", "gone"]),
    help="Of which sort the reason is; after by_person, the default, it is not planned again for this failure.",
)
@speaks_http
def cancel(session: Session, repair_id: str, **options: Any) -> None:
    """Say that the repair ID is not to be carried out."""
    _print(session, session.client.post("repairs", repair_id, "cancel", body=given(**options)))


@repair.command(epilog=EPILOG)
@speaks_http
def budget(session: Session) -> None:
    """Print how many nodes repairs disturb, how many they may, and what stops them."""
    _print_budget(session, session.client.get("repairs", "budget"))


@repair.command(epilog=EPILOG)
@_REASON
@speaks_http
def stop(session: Session, reason: str) -> None:
    """Let no repair begin until somebody says so. What is claimed goes on."""
    _print_budget(session, session.client.post("repairs", "stop", body={"reason": reason}))


@repair.command(epilog=EPILOG)
@_REASON
@click.option("--condition", help="Only those of this check, which was suspected: it is believed again.")
@speaks_http
def resume(session: Session, **options: Any) -> None:
    """Let repairs go on."""
    _print_budget(session, session.client.post("repairs", "resume", body=given(**options)))


def _print(session: Session, found: Mapping[str, Any]) -> None:
    if session.is_json:
        print_json(found)
        return
    device = found["device"] or {}
    print_facts({**found, "device": device.get("serial") or device.get("uuid") or device.get("id"), **_slot(device)})


def _slot(device: Mapping[str, Any]) -> dict[str, Any]:
    return {"slot": device["slot"]} if device.get("slot") else {}


def _print_budget(session: Session, found: Mapping[str, Any]) -> None:
    if session.is_json:
        print_json(found)
        return
    stop_ = found["stopped"]
    if stop_ is not None:
        click.echo(plain(f"Stopped since {stop_['at']} by {stop_['by']}: {stop_['reason']}"))
    elif not found["enabled"]:
        click.echo("Stopped by the policy.")
    for one in found["suspected"]:
        click.echo(plain(one["message"]))
    rows: list[tuple[object, ...]] = [("fleet", "", *_counts(found["fleet"]))]
    rows += [("profile", one["name"], *_counts(one)) for one in found["profiles"]]
    rows += [("zone", one["name"], *_counts(one)) for one in found["zones"]]
    rows.append(("begun within the hour", "", found["hour"]["begun"], "", found["hour"]["limit"]))
    print_table(("OF", "NAME", "DISTURBED", "NODES", "LIMIT"), rows)


def _counts(one: Mapping[str, Any]) -> tuple[object, ...]:
    return one["disturbed"], one["nodes"], one["limit"]


def _row(one: Mapping[str, Any]) -> list[object]:
    device = one["device"] or {}
    named = device.get("serial") or device.get("uuid") or device.get("id")
    return [named if name == "device" else one.get(name) for name in COLUMNS]
