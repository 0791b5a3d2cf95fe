# SPDX-License-Identifier: Apache-2.0
"""How is a look told to the server? As the JSON of a report, with an id, a place in the order, and its times.

The times are told on one clock: differences are measured on the monotonic one and counted back from the moment of
sending, so that a wall clock that is set in the middle of a round moves nothing.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from registry.agent.looking import Look
from registry.domain.naming import told_in_boot
from registry.domain.reports import CheckResult, CheckStatus, DeviceEntry, Reading, ReportedFailure
from registry.domain.times import rfc3339

MESSAGE_MAX = 4096
"""Longest message of a check or fault that a report may hold."""

FAULTS_MAX = 1024
"""Most faults that one report may tell of."""

Message = dict[str, Any]

_OF_THE_WHOLE = frozenset({"devices", "covers", "partial"})
"""What makes a report one about the whole machine."""

_NOT_TOLD = frozenset({"slices", "readings", "firmware"})
"""Fields of an entry that a report has no place for, or that are told only when there is something in them."""

_TEXTS = tuple(one.name for one in fields(DeviceEntry) if one.name not in _NOT_TOLD)


@dataclass(frozen=True, slots=True)
class Sender:
    """Who reports: the node's name, the instance and what is expected of it, the boot."""

    node: str
    provider_id: str
    profile: str
    boot_id: str
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """When a round began and ended, in seconds of the monotonic clock."""

    started: float
    finished: float


def message_of(
    look: Look,
    sender: Sender,
    *,
    report_id: str,
    run_id: str,
    span: Span,
    news: Callable[[Message], Message | None] = lambda failure: failure,
    standing: Mapping[str, int] = MappingProxyType({}),
    earlier_boots: Sequence[str] = (),
    with_host: bool = True,
) -> Message:
    """Make the report of a look, without what `stamped` adds. `news` gives a fault as it is to be told, or None.

    `standing` gives those without a time the number at which they appeared (`Memory.note_standing`). `earlier_boots`
    are those of which messages still wait.
    """
    message: Message = {
        "report_id": report_id,
        "run_id": run_id,
        "boot_id": sender.boot_id,
        "provider_id": sender.provider_id,
        "profile": sender.profile,
        "span": span,
    }
    if sender.zone:
        message["zone"] = sender.zone
    if look.lists:
        message["covers"] = sorted(look.lists)
        message["devices"] = [entry_of(entry) for kind in sorted(look.lists) for entry in look.lists[kind]]
    if look.partial:
        message["partial"] = sorted(look.partial)
    message["checks"] = [check_of(check) for check in look.checks]
    failures = [failure_of(failure, sender.boot_id, standing.get(failure.failure_id, 0)) for failure in look.failures]
    if fresh := [told for failure in failures if (told := news(failure)) is not None]:
        message["failures"] = fresh
    if look.host and with_host:
        message["host"] = {source: dict(values) for source, values in look.host.items()}
    if earlier_boots:
        message["earlier_boots"] = list(earlier_boots)
    return message


def stamped(message: Message, *, seq: int, now: datetime, monotonic: float) -> Message:
    """Give the message with its number within the boot and its times, ready to go out: never changed from here on."""
    ready = dict(message)
    span: Span = ready.pop("span")
    times = {
        "started_at": now - timedelta(seconds=monotonic - span.started),
        "finished_at": now - timedelta(seconds=monotonic - span.finished),
        "sent_at": now,
    }
    return {**ready, "seq": seq, **{name: rfc3339(moment) for name, moment in times.items()}}


def evidence_of(message: Message, report_id: str) -> Message:
    """Give what is left of a message that was refused: its faults and checks, under an id of their own."""
    return {name: value for name, value in message.items() if name not in _OF_THE_WHOLE} | {"report_id": report_id}


def entry_of(entry: DeviceEntry) -> Message:
    """Write an entry as a report has it; what is not known is left out."""
    told: Message = {name: value for name in _TEXTS if (value := getattr(entry, name)) is not None}
    if entry.firmware:
        told["firmware"] = dict(entry.firmware)
    # JSON has no word for what is no number, and a sensor may well show it.
    readings = {name: value for name, value in entry.readings.items() if not _is_no_number(value)}
    if readings:
        told["readings"] = readings
    return told


def _is_no_number(value: Reading) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def check_of(check: CheckResult) -> Message:
    """Write a check's result as a report has it."""
    told = {"name": check.name, "status": str(check.status), "device": check.device, "code": check.code}
    return _known({**told, "message": clean(check.message), "count": check.count})


def failure_of(failure: ReportedFailure, boot_id: str, appeared: int = 0) -> Message:
    """Write a fault as a report has it. One without a time gets an id that means this appearance of it alone."""
    failure = told_in_boot(failure, f"{boot_id}\n{appeared}")
    return _known(
        {
            "failure_id": failure.failure_id,
            "code": failure.code,
            "device": failure.device,
            "slot": failure.slot,
            "occurred_at": failure.occurred_at and rfc3339(failure.occurred_at),
            "message": clean(failure.message),
            "evidence": clean(failure.evidence) or None,
            "count": failure.count if failure.count > 1 else None,
            "last_at": failure.last_at and rfc3339(failure.last_at),
        }
    )


def failing_in(message: Message) -> frozenset[tuple[str, str, str]]:
    """Name what fails in a message: check, device, code."""
    return frozenset(
        (check["name"], check.get("device", ""), check.get("code", ""))
        for check in message.get("checks", ())
        if check["status"] == CheckStatus.FAIL
    )


def parts_of(message: Message) -> list[Message]:
    """Give the message in as many parts as its faults need: all but faults is in the first."""
    failures: list[Message] = message.get("failures", [])
    parts = [failures[at : at + FAULTS_MAX] for at in range(0, len(failures), FAULTS_MAX)]
    if len(parts) < 2:
        return [message]
    bare = {name: value for name, value in message.items() if name not in {*_OF_THE_WHOLE, "checks", "host"}}
    rest = [{**bare, "report_id": str(uuid.uuid4()), "checks": [], "failures": part} for part in parts[1:]]
    return [{**message, "failures": parts[0]}, *rest]


def clean(value: Any) -> Any:
    """Give text, or evidence made of texts, without the characters that a server refuses; a tool may print any."""
    if isinstance(value, str):
        return "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in value)[:MESSAGE_MAX]
    if isinstance(value, Mapping):
        return {clean(str(name)): clean(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [clean(inner) for inner in value]
    return value


def _known(fields_: Mapping[str, Any]) -> Message:
    return {name: value for name, value in fields_.items() if value is not None}
