# SPDX-License-Identifier: Apache-2.0
"""What does this machine say of itself before it asks? One look with the agent's sources, sent as one report."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import click

from registry.agent.acting import why_not_counted
from registry.agent.kernel import KernelLog
from registry.agent.looking import longest
from registry.agent.memory import Memory
from registry.agent.messages import Message, Sender, Span, message_of, parts_of, stamped
from registry.agent.running import ToolRunner, clean_environment
from registry.agent.sources import Machine
from registry.agent.times import MachineTimes, Times
from registry.agent.who import who_reports
from registry.cli.exits import Exit
from registry.cli.output import plain
from registry.client import Client, NotAuthorised, ProblemAnswer
from registry.collectors import boot as boots
from registry.config import AgentSettings, ConfigError
from registry.domain.decision import ExitCode
from registry.domain.errors import PartUnreadable
from registry.domain.reports import DeviceEntry

LISTING = ("GPUs", "EFA")
"""The sources without which nobody knows which devices are here."""

REFUSED = frozenset({400, 422})
"""Answers that say that the message itself is wrong."""


class Ended(Exception):
    """There is no decision to end with. `code` is the exit code; `is_final` when another look would not help."""

    def __init__(self, detail: str, code: int, *, is_final: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code
        self.is_final = is_final


@dataclass(slots=True)
class Here:
    """The machine that the command runs on, and the server that it reports to."""

    sender: Sender
    client: Client
    machine: Machine
    memory: Memory
    times: Times
    lists: dict[str, Sequence[DeviceEntry]] = field(default_factory=dict)
    _seq: int = 0

    def report(self) -> dict[str, Any]:
        """Look, report, and give the decision of the answer. Raises ClientError and Ended.

        What the server knew before never stands in for what could not be read now.
        """
        started = self.times.monotonic()
        look = self.machine.look()
        self.lists.update(longest(self.lists, look.lists))
        for trouble in look.troubles.values():
            click.echo(f"pratique: {plain(trouble)}", err=True)
        if not (look.lists or look.checks):
            # Nothing at all is no report: it would only make the node look alive.
            raise Ended("nothing here says what this machine carries", Exit.HARDWARE_UNREADABLE)
        span = Span(started, self.times.monotonic())
        report_id = str(uuid.uuid4())
        message = message_of(look, self.sender, report_id=report_id, run_id=report_id, span=span, news=self.memory.news)
        answer, *_ = [self._send(self._ready(part)) for part in parts_of(message)]
        self.memory.note_told(message.get("failures", ()))
        if remark := why_not_counted(answer):
            click.echo(f"pratique: {plain(remark)}", err=True)
        unread = [look.troubles[name] for name in LISTING if name in look.troubles]
        if unread:
            raise Ended(unread[0], Exit.HARDWARE_UNREADABLE)
        decision: dict[str, Any] = answer["admission"]
        return decision

    def _ready(self, part: Message) -> Message:
        self._seq = max(self._seq + 1, self.times.since_boot())
        return stamped(part, seq=self._seq, now=self.times.now(), monotonic=self.times.monotonic())

    def _send(self, message: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self.client.report(self.sender.node, message)
        except NotAuthorised:
            raise
        except ProblemAnswer as error:
            if error.code == "instance_superseded":
                raise Ended(error.detail, ExitCode.REFUSED, is_final=True) from error
            if error.status == 413 or error.code == "part_unreadable":
                raise Ended(error.detail, Exit.HARDWARE_UNREADABLE) from error
            if error.status in REFUSED:
                raise Ended(f"the report was refused: {error.detail}", Exit.USAGE, is_final=True) from error
            raise


def prepare(client: Client, node: str | None, **options: Any) -> Here:
    """Find out who this machine is. Raises click.UsageError, and SystemExit where the kernel names no boot."""
    try:
        settings = AgentSettings.from_env(os.environ)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    given = {name: value for name, value in {"node": node, **options}.items() if value is not None}
    settings = replace(settings, **given)
    times = MachineTimes()
    run = ToolRunner(clean_environment(os.environ))
    try:
        boot = boots.collect(settings.root, run, settings.provider_id)
    except PartUnreadable as error:
        click.echo(f"pratique: {error.detail}", err=True)
        raise SystemExit(int(Exit.HARDWARE_UNREADABLE)) from error
    try:
        sender = who_reports(settings, boot)
    except PartUnreadable as error:
        raise click.UsageError(error.detail) from error
    # Nothing is kept: each command reads the whole log of this boot anew.
    memory = Memory(None, boot.boot_id)
    kernel = KernelLog(settings.root, run, boot, memory, times.now)
    machine = Machine(settings.root, run, kernel, times, lists=lambda: made.lists)
    made = Here(sender, client, machine, memory, times)
    return made
