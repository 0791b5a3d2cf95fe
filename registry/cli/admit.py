# SPDX-License-Identifier: Apache-2.0
"""May this node take work? The answer is the exit code, so that a boot script needs to read nothing.

On the node itself the command first looks at the hardware and reports, as `bootstrap.sh` does; both end alike.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from registry.cli import here
from registry.cli.connection import Session, end_with, speaks_http
from registry.cli.exits import Exit
from registry.cli.kinds import Duration
from registry.cli.output import plain, print_decision, print_json
from registry.client import READ_TIMEOUT, ClientError, NotAuthorised
from registry.domain.decision import exit_code_for
from registry.domain.times import parse_rfc3339

NODE_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}")

POLL_SECONDS = 5.0
"""Pause between two questions where the server names no time."""

GAP_SECONDS = 30.0
"""Pause between two looks: the gap that a server asks for between two passes unless it was set up otherwise."""

POLL_SECONDS_MAX = 30.0
"""Longest pause: a release by a person comes at no time the server could name."""

EPILOG = """\b
Exit codes:
  0   admitted
  10  a device or the node is in quarantine
  11  nothing but passes is lacking: ask again
  12  it is not certain which devices these are
  13  any other refusal
  20  no decision: the server cannot be reached or cannot answer
  2   usage     3  not authorised     4  the hardware here could not be read
The first of 12, 10, 13, 11 that applies.

\b
Examples:
  pratique admit node-a
  pratique admit "$(hostname)" --wait 15m || exit 1
  pratique admit node-a --output json | jq -r '.reasons[].code'
  pratique admit --here --profile p5.48xlarge --wait 15m
"""


@click.command(epilog=EPILOG)
@click.argument("node", required=False)
@click.option(
    "--wait", type=Duration(), metavar="DURATION", help="Ask again until admitted, for so long: 90s, 15m, 1h."
)
@click.option(
    "--here", "is_here", is_flag=True, help="This is NODE: look at its hardware and report. So it is without NODE."
)
@click.option("--provider-id", help="With --here: id of the instance; left out, the machine is asked.")
@click.option("--profile", help="With --here: what sort of node this is; left out, the EC2 type.")
@click.option("--zone", help="With --here: where the node stands.")
@click.option("--gap", type=click.FloatRange(min=0), default=GAP_SECONDS, help="With --here: pause between two looks.")
@click.option("--root", type=Path, metavar="DIR", help="With --here: where /sys, /proc and /dev are.")
@speaks_http
def admit(
    session: Session, node: str | None, wait: timedelta | None, gap: float, *, is_here: bool, **where: Any
) -> None:
    """May NODE take work now? Prints the decision with every reason, and ends with its code.

    Only exit code 0 means yes. A server that is away is no yes. Without NODE, or with --here, it is about this machine,
    which looks at its hardware and reports before it asks.
    """
    if node is not None and not NODE_NAME.fullmatch(node):
        raise click.BadParameter(f"{node!r} is no name of a node", param_hint="NODE")
    if node is None or is_here:
        look = here.prepare(session.client, node, **where)
        name, question, pause = look.sender.node, look.report, lambda _: gap
    elif stray := [f"--{option.replace('_', '-')}" for option, value in where.items() if value is not None]:
        raise click.UsageError(f"{', '.join(stray)} goes with --here: another machine cannot be looked at.")
    else:
        name, question, pause = node, lambda: session.client.admission(node), pause_after
    seconds = wait.total_seconds() if wait else 0.0
    session.client.until = time.monotonic() + (seconds if wait else READ_TIMEOUT)
    try:
        decision = poll(question, name, seconds, pause=pause)
    except NotAuthorised:
        raise
    except here.Ended as error:
        click.echo(f"pratique: {plain(error.detail)}", err=True)
        raise SystemExit(error.code) from error
    except ClientError as error:
        end_with(error, is_json=session.is_json, code=Exit.NO_DECISION)
    if session.is_json:
        print_json(decision)
    else:
        print_decision(decision)
    raise SystemExit(int(exit_of_decision(decision)))


def exit_of_decision(decision: dict[str, Any]) -> int:
    """Give the exit code of a decision as it came."""
    return exit_code_for(bool(decision["admitted"]), [str(reason["code"]) for reason in decision["reasons"]])


def poll(
    question: Callable[[], dict[str, Any]],
    node: str,
    seconds: float,
    *,
    pause: Callable[[dict[str, Any]], float],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Ask until admitted or until the time is over; then the last answer counts.

    A server that is away may come back and is asked again, and hardware that cannot be read yet is looked at again; a
    token that is refused will not get better. Raises NotAuthorised and a final `here.Ended` at once, and the last
    ClientError or `here.Ended` when the time is over without a decision.
    """
    deadline = clock() + seconds
    told = ""
    while True:
        try:
            decision = question()
        except NotAuthorised:
            raise
        except (ClientError, here.Ended) as error:
            if clock() >= deadline or (isinstance(error, here.Ended) and error.is_final):
                raise
            news, rest = error.detail, POLL_SECONDS
        else:
            if decision["admitted"] or clock() >= deadline:
                return decision
            news, rest = ", ".join(dict.fromkeys(one["code"] for one in decision["reasons"])), pause(decision)
        if news != told:
            click.echo(f"{node}: waiting: {plain(news)}", err=True)
            told = news
        sleep(max(0.0, min(rest, deadline - clock())))


def pause_after(decision: dict[str, Any]) -> float:
    """Seconds until asking again can help, by the server's own clock, and a little by chance.

    A fleet that was told the same time must not come back in the same moment.
    """
    times = [reason["retry_at"] for reason in decision["reasons"] if reason.get("retry_at")]
    pause = POLL_SECONDS
    if times:
        pause = (parse_rfc3339(min(times)) - parse_rfc3339(decision["decided_at"])).total_seconds()
    return min(max(pause, 0.5), POLL_SECONDS_MAX) * random.uniform(1.0, 1.2)  # noqa: S311 - spreads load, guards nothing
