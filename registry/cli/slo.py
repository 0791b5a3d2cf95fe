# SPDX-License-Identifier: Apache-2.0
"""Is what the policy promises kept, and if not, by whose doing?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from registry.cli.connection import Session, speaks_http
from registry.cli.output import plain, print_json, print_table

EPILOG = """\b
Examples:
  pratique slo
  pratique slo --output json | jq '.objectives[] | select(.alert)'
"""

CAUSES = ("hardware", "driver", "platform", "user", "unknown")


@click.command(epilog=EPILOG)
@speaks_http
def slo(session: Session) -> None:
    """Print how each objective stands, by whose doing it is not met, and where the time of GPUs went.

    LEFT is the part of the room for failure that is left of the window, BURN how fast it was used up in the last hour:
    at 1 it lasts just as long as the window.
    """
    found = session.client.get("slo")
    if session.is_json:
        print_json(found)
        return
    objectives = found["objectives"]
    print_table(("OBJECTIVE", "TARGET", "ACTUAL", "LEFT", "BURN", "ALERT"), map(_standing, objectives))
    click.echo()
    print_table(("NOT MET BY", *(cause.upper() for cause in CAUSES)), map(_by_cause, objectives))
    for title, group in (("GPU-TIME OF THE FLEET", _capacity(found)), ("GPU-TIME OF JOBS", _jobs(found))):
        click.echo()
        print_table((title, "CAUSE", "SHARE"), group)
    seen, window = found["capacity"]["seen_seconds"], found["capacity"]["window_seconds"]
    click.echo(f"\nThe nodes were seen for {share(seen / window)} of {window // 86_400} days; the rest counts nowhere.")


def share(value: float | None) -> str:
    """Write a part of a whole as per cent."""
    return "-" if value is None else f"{100 * value:.2f}%"


def _standing(one: Mapping[str, Any]) -> tuple[str, ...]:
    burn = next((rate["long"] for rate in one["burn_rates"] if rate["long_seconds"] == 3600), None)
    name = plain(one["name"])
    return (
        name,
        plain(one["target"]),
        _amount(name, one["actual"]),
        share(one["left"]),
        "-" if burn is None else f"{burn:.1f}",
        plain(one["alert"]),
    )


def _by_cause(one: Mapping[str, Any]) -> list[str]:
    name, rates = plain(one["name"]), one["by_cause"] or {}
    return [name, *(_amount(name, rates.get(cause)) for cause in CAUSES)]


def _amount(name: str, value: float | None) -> str:
    """Write what is a share as one, and what is a rate in 1,000 node-days as a number."""
    if name != "interruptions":
        return share(value)
    return "-" if value is None else f"{value:.2f}"


def _capacity(found: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    return [(plain(one["state"]), plain(one["cause"]), share(one["share"])) for one in found["capacity"]["spent"]]


def _jobs(found: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    jobs = found["jobs"]
    if jobs["goodput"] is None:
        return []
    bad = [(plain(one["kind"]), plain(one["cause"]), share(one["share"])) for one in jobs["badput"]]
    return [("productive", "-", share(jobs["goodput"])), *bad]
