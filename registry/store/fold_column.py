# SPDX-License-Identifier: Apache-2.0
"""How does a job's memory of its messages stand in one column, and a message in another? As JSON, and back exactly."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from registry.domain.failures import Cause
from registry.domain.goodput import Amount, Ledger, Slot, TimeKind
from registry.domain.job_events import JobEvent, JobEventKind, Outcome, PauseReason, Unit
from registry.domain.job_fold import Fold
from registry.domain.job_phases import Phase
from registry.domain.job_pieces import Open, Piece

_PLAIN = (
    *("mark", "is_released", "had_begun", "nodes", "devices", "step", "durable", "attempts", "started_at", "ended_at"),
)
_WORDS: Mapping[str, Any] = {
    "kind": JobEventKind,
    "reason": PauseReason,
    "cause": Cause,
    "outcome": Outcome,
    "unit": Unit,
    "nodes": tuple,
}
_DEFAULTS = {one.name: one.default for one in fields(JobEvent)}


def dump_fold(fold: Fold) -> str:
    """Write a fold whose `delta` was taken out of it."""
    said: dict[str, Any] = {name: getattr(fold, name) for name in _PLAIN}
    said |= {name: getattr(fold, name) for name in ("pending", "charged", "open", "pace", "idle", "interrupted")}
    said |= {"phase": fold.phase, "cause": fold.cause, "outcome": fold.outcome}
    return json.dumps(said, separators=(",", ":"))


def load_fold(text: str) -> Fold:
    """Read what `dump_fold` wrote."""
    said = json.loads(text)
    kind, cause = said["idle"]
    interrupted, outcome = said["interrupted"], said["outcome"]
    return Fold(
        **{name: said[name] for name in _PLAIN},
        pending=[_piece(one) for one in said["pending"]],
        charged=[_piece(one) for one in said["charged"]],
        phase=Phase(said["phase"]),
        cause=Cause(said["cause"]),
        outcome=Outcome(outcome) if outcome else None,
        idle=(TimeKind(kind), Cause(cause)),
        pace=tuple(said["pace"]),
        open=[Open(*one) for one in said["open"]],
        interrupted=slot_of(*interrupted) if interrupted else None,
    )


def slot_of(bucket: int, size: int, kind: str, cause: str | None) -> Slot:
    """Make a slot of what its words say."""
    return Slot(bucket, size, TimeKind(kind), Cause(cause) if cause else None)


def _piece(said: list[Any]) -> Piece:
    bucket, kind, cause, *numbers = said
    return Piece(bucket, TimeKind(kind), Cause(cause) if cause else None, *numbers)


def dump_totals(totals: Ledger) -> str:
    """Write the sums of a job's ledger."""
    rows = [[*slot[2:], *amount] for slot, amount in sorted(totals.items(), key=str)]
    return json.dumps(rows, separators=(",", ":"))


def load_totals(text: str) -> Ledger:
    """Read what `dump_totals` wrote."""
    return Ledger({slot_of(0, 0, kind, cause): Amount(*amount) for kind, cause, *amount in json.loads(text)})


def dump_event(event: JobEvent) -> str:
    """Write what a message says beside its id and its time; equal messages are written alike."""
    said = {name: getattr(event, name) for name in _DEFAULTS if name not in {"event_id", "at"}}
    told = {name: value for name, value in said.items() if value != _DEFAULTS[name]}
    return json.dumps(told, separators=(",", ":"), sort_keys=True)


def load_events(rows: Iterable[tuple[str, int, str]]) -> list[JobEvent]:
    """Read messages of their id, time and body."""
    return [JobEvent(event_id, at=at, **_told(json.loads(body))) for event_id, at, body in rows]


def _told(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _WORDS[name](value) if name in _WORDS else value for name, value in said.items()}
