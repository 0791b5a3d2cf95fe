# SPDX-License-Identifier: Apache-2.0
"""May this node take work? The answer is the exit code, so that a boot script needs to read nothing."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import click

from registry.cli.connection import Session, end_with, speaks_http
from registry.cli.exits import Exit
from registry.cli.kinds import Duration
from registry.cli.output import plain, print_decision, print_json
from registry.client import ClientError, NotAuthorised
from registry.domain.decision import exit_code_for
from registry.domain.times import parse_rfc3339

NODE_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}")

POLL_SECONDS = 5.0
"""Pause between two questions where the server names no time."""

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
"""


@click.command(epilog=EPILOG)
@click.argument("node")
@click.option(
    "--wait", type=Duration(), metavar="DURATION", help="Ask again until admitted, for so long: 90s, 15m, 1h."
)
@speaks_http
def admit(session: Session, node: str, wait: timedelta | None) -> None:
    """May NODE take work now? Prints the decision with every reason, and ends with its code.

    Only exit code 0 means yes. A server that is away is no yes.
    """
    if not NODE_NAME.fullmatch(node):
        raise click.BadParameter(f"{node!r} is no name of a node", param_hint="NODE")
    try:
        decision = ask(session, node) if wait is None else poll(session, node, wait.total_seconds())
    except NotAuthorised:
        raise
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


def ask(session: Session, node: str) -> dict[str, Any]:
    """Ask once. Raises ClientError."""
    return session.client.admission(node)


def poll(
    session: Session,
    node: str,
    seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Ask until admitted or until the time is over; then the last answer counts.

    A server that is away may come back and is asked again; a token that is refused will not get better.
    Raises NotAuthorised at once, and the last ClientError when the time is over without a decision.
    """
    deadline = clock() + seconds
    told = ""
    while True:
        try:
            decision = ask(session, node)
        except NotAuthorised:
            raise
        except ClientError as error:
            if clock() >= deadline:
                raise
            news, pause = error.detail, POLL_SECONDS
        else:
            if decision["admitted"] or clock() >= deadline:
                return decision
            news, pause = ", ".join(dict.fromkeys(one["code"] for one in decision["reasons"])), pause_after(decision)
        if news != told:
            click.echo(f"{node}: waiting: {plain(news)}", err=True)
            told = news
        sleep(max(0.0, min(pause, deadline - clock())))


def pause_after(decision: dict[str, Any]) -> float:
    """Seconds until asking again can help, by the server's own clock, and a little by chance.

    A fleet that was told the same time must not come back in the same moment.
    """
    times = [reason["retry_at"] for reason in decision["reasons"] if reason.get("retry_at")]
    pause = POLL_SECONDS
    if times:
        pause = (parse_rfc3339(min(times)) - parse_rfc3339(decision["decided_at"])).total_seconds()
    return min(max(pause, 0.5), POLL_SECONDS_MAX) * random.uniform(1.0, 1.2)  # noqa: S311 - spreads load, guards nothing
