# SPDX-License-Identifier: Apache-2.0
"""How is a node's agent started, and how does it end? The loop itself is in `registry.agent`."""

from __future__ import annotations

import fcntl
import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from registry.agent.acting import Actor
from registry.agent.files import FileReader
from registry.agent.kernel import KernelLog
from registry.agent.loop import PERIOD_SECONDS, Agent
from registry.agent.memory import Memory
from registry.agent.notify import STOPPING, Notifier
from registry.agent.running import GRACE_SECONDS, ToolRunner, clean_environment, limit_in
from registry.agent.sources import Diagnosis, Machine
from registry.agent.spool import Spool
from registry.agent.telling import Superseded, Teller
from registry.agent.times import MachineTimes
from registry.agent.who import who_reports
from registry.cli.connection import open_session
from registry.cli.exits import Exit
from registry.cli.output import plain
from registry.client import CONNECT_TIMEOUT, Client, NotAuthorised
from registry.collectors import boot as boots
from registry.collectors.boot import Boot
from registry.config import AgentSettings, ConfigError
from registry.domain.errors import PartUnreadable

ANSWER_SECONDS = 10.0
"""How long the agent waits for an answer: less than a command, because the next round is due."""

COMMAND_SECONDS = 30.0
"""How long the command for a changed decision may take."""

DIAG_SECONDS = 7200.0
"""How long `dcgmi diag` may take: level 4 takes up to two hours on eight GPUs
(https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/dcgm-diagnostics.html)."""

EPILOG = """\b
Exit codes:
  0   told to stop
  14  a newer instance has this node's name: nothing more to say
  2   usage     4  nothing here says which boot, instance or profile this is
With --once: those of `pratique admit`; 20 and 3 when there is no decision.

\b
Examples:
  pratique agent node-a --profile p5.48xlarge --state-file /run/pratique/decision.json
  pratique agent --on-change '/usr/local/sbin/node-decision' --diag-level 1
  pratique agent --once || echo "not now"
"""


@click.command(epilog=EPILOG)
@click.argument("node", required=False)
@click.option("--provider-id", help="Id of the instance; left out, the machine is asked.  [PRATIQUE_AGENT_PROVIDER_ID]")
@click.option("--profile", help="What sort of node this is; left out, the EC2 type.  [PRATIQUE_AGENT_PROFILE]")
@click.option("--zone", help="Where the node stands.  [PRATIQUE_AGENT_ZONE]")
@click.option("--state-dir", type=Path, metavar="DIR", help="What waits to be sent.  [PRATIQUE_AGENT_STATE_DIR]")
@click.option("--state-file", type=Path, metavar="FILE", help="Keep the decision there.  [PRATIQUE_AGENT_STATE_FILE]")
@click.option("--on-change", metavar="COMMAND", help="Run it at another decision.  [PRATIQUE_AGENT_ON_CHANGE]")
@click.option(
    "--diag-level", type=click.IntRange(0, 4), help="Level of one `dcgmi diag` a boot.  [PRATIQUE_AGENT_DIAG_LEVEL]"
)
@click.option(
    "--diag-anytime",
    type=click.IntRange(0, 1),
    metavar="0|1",
    help="Begin it also on an admitted node, whose jobs it disturbs.  [PRATIQUE_AGENT_DIAG_ANYTIME]",
)
@click.option("--root", type=Path, metavar="DIR", help="Where /sys, /proc and /dev are.  [PRATIQUE_AGENT_ROOT]")
@click.option("--url", metavar="URL", help="Address of the server.  [PRATIQUE_URL]")
@click.option("--token-file", metavar="FILE", help="File that holds the token.  [PRATIQUE_TOKEN_FILE]")
@click.option("--once", is_flag=True, help="Do one round and end with the decision's code.")
@click.option(
    "--period",
    type=click.FloatRange(min=0.01),
    default=PERIOD_SECONDS,
    hidden=True,
    help="Seconds between two rounds, for tests.",
)
def agent(url: str | None, token_file: str | None, *, once: bool, period: float, **options: Any) -> None:
    """Watch over this node: every 30 seconds look at the hardware, tell the server, and act on the answer as told.

    NODE is the name to report under; left out, PRATIQUE_AGENT_NODE or the host's name.
    """
    settings = read_settings(options)
    if once:  # a diagnostic takes longer than one round
        settings = replace(settings, diag_level=0)
    client = open_session(url, token_file, "text").client
    client.retries, client.timeout = 0, (CONNECT_TIMEOUT, ANSWER_SECONDS)
    client.answer_seconds = CONNECT_TIMEOUT + ANSWER_SECONDS

    def fresh_token() -> str | None:
        try:
            return open_session(url, token_file, "text").client.token
        except click.UsageError as error:
            say(error.message)
            return None

    times = MachineTimes()
    client.is_stopping = times.is_stopping
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: times.stop())
    with alone_in(settings.state_dir):
        made = make_agent(settings, client, times, period)
        made.teller.fresh_token = fresh_token
        try:
            if once:
                made.round()
            else:
                made.run()
        except Superseded as error:
            say(f"{error.detail} This agent ends.")
            made.yield_to_newer(error.detail)
            made.notify(STOPPING)
            times.stop()
            made.beside.end()
            raise SystemExit(int(Exit.SUPERSEDED)) from error
    if once:
        raise SystemExit(code_of(made))


def read_settings(options: dict[str, Any]) -> AgentSettings:
    """Read the settings, and put what was given on the command line in their place. Raises click.UsageError."""
    try:
        settings = AgentSettings.from_env(os.environ)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    return replace(settings, **{name: value for name, value in options.items() if value is not None})


def make_agent(settings: AgentSettings, client: Client, times: MachineTimes, period: float) -> Agent:
    """Put an agent together. Raises SystemExit for a machine that does not say who it is, click.UsageError."""
    environment = clean_environment(os.environ)
    run = ToolRunner(environment, limit=limit_in(period), is_stopping=times.is_stopping)
    boot = read_boot(settings, run)
    try:
        sender = who_reports(settings, boot)
        command = shlex.split(settings.on_change or "")
        spool = Spool(settings.state_dir / "spool", say=say)
    except PartUnreadable as error:
        raise _unreadable(error.detail) from error
    except (ValueError, OSError) as error:
        raise click.UsageError(f"the agent cannot begin: {error}") from error
    memory = Memory(settings.state_dir / "memory.json", boot.boot_id, say)
    kernel = KernelLog(settings.root, run, boot, memory, times.now)
    files = FileReader(run.limit + 2 * GRACE_SECONDS, times.is_stopping)
    machine = Machine(settings.root, run, kernel, times, lists=lambda: made.lists, files=files)
    hook = ToolRunner(environment, limit=COMMAND_SECONDS)  # told to stop, it still ends what it has begun
    beside = Diagnosis(
        settings.root,
        ToolRunner(environment, limit=DIAG_SECONDS, is_stopping=times.is_stopping),
        level=settings.diag_level,
        memory=memory,
        times=times,
        lists=lambda: made.lists,
        is_anytime=settings.diag_anytime,
    )
    teller = Teller(sender, client, spool, times, say, lambda: None, period)
    made = Agent(
        sender=sender,
        teller=teller,
        memory=memory,
        actor=Actor(settings.state_file, command, hook, say, memory.acted),
        look=machine.look,
        beside=beside,
        times=times,
        say=say,
        notify=Notifier(os.environ),
        period=period,
        earlier_boots=teller.sort_out(),
    )
    machine.hurry = made.hurry
    return made


def read_boot(settings: AgentSettings, run: ToolRunner) -> Boot:
    """Ask the kernel which boot this is. Raises SystemExit."""
    try:
        return boots.collect(settings.root, run, settings.provider_id)
    except PartUnreadable as error:
        raise _unreadable(error.detail) from error


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Let no second agent use the folder. Raises click.UsageError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise click.UsageError(f"{folder} cannot be used: {error.strerror}. Give another --state-dir.") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise click.UsageError(f"Another agent uses {folder}.") from error
        yield


def code_of(made: Agent) -> int:
    """Give the exit code of one round."""
    error = made.teller.error
    if made.standing is not None and made.standing.decision is not None:
        return made.standing.exit_code
    return int(Exit.NOT_AUTHORISED if isinstance(error, NotAuthorised) else Exit.NO_DECISION)


def say(sentence: str) -> None:
    """Write a line for the log."""
    with suppress(OSError):  # a log on a full disk is no reason to stop looking
        click.echo(f"pratique agent: {plain(sentence)}", err=True)


def _unreadable(sentence: str) -> SystemExit:
    say(sentence)
    return SystemExit(int(Exit.HARDWARE_UNREADABLE))
