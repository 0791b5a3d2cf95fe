# SPDX-License-Identifier: Apache-2.0
"""What is given to whoever takes a device back? One zip file: what it is, its life, its faults, and proof of it all.

It is made while it is sent, in memory that does not grow with the device's history. The same records at the same moment
give the same bytes: every file in it bears one fixed date.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from registry.domain.actors import SubjectKind
from registry.domain.checkpoints import Checkpoint, Statement
from registry.domain.csv_cells import safe_cell
from registry.domain.errors import StoreUnavailable
from registry.domain.policy import Policy
from registry.domain.timeline_svg import draw_svg
from registry.domain.times import brief, rfc3339, rfc3339_or_none
from registry.services.bundle_words import readme
from registry.services.device_view import DeviceView, view_in
from registry.services.proofs import Prover
from registry.services.sinks import write_line
from registry.services.targets import get_unit
from registry.store import checkpoints, device_past, history, nodes
from registry.store.database import Database, Snapshot
from registry.store.devices import Device
from registry.store.failures import Failure

PIECE = 500
"""Events or failures in one piece: each is read in a view of its own, for they never change but for their number."""

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of every file: the first that the format can say (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT,
4.4.6, MS-DOS dates)."""

DCGM = "dcgm"
FAILURE_COLUMNS = (
    *("id", "code", "kind", "cause", "severity", "effect", "state", "muted", "node", "slot", "occurred_at"),
    *("recorded_at", "last_at", "count", "reporter", "message", "evidence"),
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a bundle begins with, read in one view. `last` is the newest event of the device that belongs to it."""

    view: DeviceView
    dcgm_checks: list[dict[str, Any]]
    checkpoint: Checkpoint | None
    statements: str
    last: int
    at: datetime


def gather(db: Database, ref: str, *, policy: Policy, now: datetime) -> Evidence:
    """Read what the bundle of a device begins with. Raises NotFound, DeviceAmbiguous, StoreUnavailable."""
    with db.read() as snapshot:
        device = get_unit(snapshot, ref)
        try:
            newest = checkpoints.find_newest(snapshot)
        except ValueError as error:
            raise StoreUnavailable("the newest checkpoint cannot be read: run `pratique audit verify`") from error
        signed: list[Statement] = [*checkpoints.list_rotations(snapshot), *([newest] if newest else [])]
        return Evidence(
            view=view_in(snapshot, device, policy, now),
            dcgm_checks=_dcgm_checks(snapshot, device),
            checkpoint=newest,
            statements="".join(map(write_line, signed)),
            last=snapshot.sequence(),
            at=now,
        )


def file_name(evidence: Evidence) -> str:
    """Return what to call the file: by the serial where there is one, in characters that every disk takes."""
    device = evidence.view.device
    name = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in device["serial"] or device["id"])
    return f"pratique-{name[:64]}.zip"


def stream(db: Database, evidence: Evidence) -> Iterator[bytes]:
    """Yield the zip file in pieces."""
    out = _Out()
    sums: list[str] = []
    with zipfile.ZipFile(out, "w") as archive:
        for name, pieces in _files(db, evidence):
            digest = hashlib.sha256()
            with archive.open(_member(name), "w") as member:
                for piece in pieces:
                    data = piece.encode()
                    digest.update(data)
                    member.write(data)
                    yield out.take()
            sums.append(f"{digest.hexdigest()}  {name}\n")
        archive.writestr(_member("SHA256SUMS"), "".join(sums))
    yield out.take()


class _Out(io.RawIOBase):
    """Where the archive is written to; it can only go on, so whoever streams takes what is there so far."""

    def __init__(self) -> None:
        self._written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._written += data
        return len(data)

    def take(self) -> bytes:
        taken = bytes(self._written)
        self._written.clear()
        return taken


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = 3  # Unix, whatever this runs on: the bytes must not depend on it
    info.external_attr = 0o644 << 16
    return info


def _files(db: Database, evidence: Evidence) -> Iterator[tuple[str, Iterable[str]]]:
    view = evidence.view
    device = view.device
    identity = {**device, "sentence": view.sentence, "siblings": view.siblings, "as_of": rfc3339(evidence.at)}
    label = f"{device['kind'].upper()} {device['serial'] or device['uuid'] or device['id']}"
    yield "README.txt", [readme(evidence.view, evidence.checkpoint, evidence.at)]
    yield "identity.json", [_document(identity)]
    yield "timeline.json", [_document({**view.timeline.to_json(), "places": view.places})]
    yield "timeline.svg", [draw_svg(view.timeline, label, is_alone=True) + "\n"]
    yield "swap_test.txt", [view.swap_test.sentence + "\n"]
    yield "failures.csv", _failures(db, device["id"])
    yield "dcgm.json", _dcgm(db, evidence)
    yield "holds.json", [_document(view.holds)]
    yield "notes.json", [_document(view.notes)]
    yield "history.ndjson", _history(db, evidence)
    yield "checkpoints.jsonl", [evidence.statements]


def _document(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True) + "\n"


def _history(db: Database, evidence: Evidence) -> Iterator[str]:
    """Yield every event of the device as a line, each with the proof that the checkpoint covers it; null before one."""
    subjects = [(SubjectKind.DEVICE, evidence.view.device["id"])]
    after = 0
    while True:
        with db.read() as snapshot:
            events = history.page_events(snapshot, subjects=subjects, after=after, limit=PIECE)
            prover = Prover(snapshot, evidence.checkpoint.sequence) if evidence.checkpoint else None
            kept = [one for one in events if one.sequence <= evidence.last]
            shown = [prover.show(one) if prover else {**one.to_json(), "proof": None} for one in kept]
        yield "".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n" for one in shown)
        if len(kept) < PIECE:
            return
        after = kept[-1].sequence


def _failures(db: Database, device_id: str) -> Iterator[str]:
    yield _table([FAILURE_COLUMNS])
    for piece in _failure_pieces(db, device_id):
        yield _table([[safe_cell(_cell(one, node, name)) for name in FAILURE_COLUMNS] for one, node in piece])


def _failure_pieces(db: Database, device_id: str) -> Iterator[list[tuple[Failure, str | None]]]:
    after = ""
    while True:
        with db.read() as snapshot:
            piece = device_past.page_failures(snapshot, device_id, after, PIECE)
        if piece:
            yield piece
        if len(piece) < PIECE:
            return
        after = piece[-1][0].id


def _cell(failure: Failure, node: str | None, name: str) -> Any:
    if name == "node":
        return node
    if name == "evidence":
        return None if failure.evidence is None else json.dumps(failure.evidence, ensure_ascii=False, sort_keys=True)
    value = getattr(failure, name)
    return rfc3339_or_none(value) if name.endswith("_at") else value


def _table(rows: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


def _dcgm(db: Database, evidence: Evidence) -> Iterator[str]:
    """Tell what DCGM said: how its checks of the node stand now, and every failure that it found on the device."""
    found = [
        {name: _cell(one, node, name) for name in FAILURE_COLUMNS} | {"evidence": one.evidence}
        for piece in _failure_pieces(db, evidence.view.device["id"])
        for one, node in piece
        if _is_of_dcgm(one)
    ]
    yield _document({"checks_now": evidence.dcgm_checks, "failures": found})


def _is_of_dcgm(failure: Failure) -> bool:
    said = failure.evidence if isinstance(failure.evidence, dict) else {}
    return failure.code.startswith(f"{DCGM}_") or str(said.get("check", "")).startswith(f"{DCGM}.")


def _dcgm_checks(snapshot: Snapshot, device: Device) -> list[dict[str, Any]]:
    """The checks of DCGM on the node where the device is, with what they say of it or of no device in particular."""
    places, _ = device_past.list_places(snapshot, device.id, 1)
    here = places[0] if places and places[0].until is None else None
    state = nodes.find_state(snapshot, here.node_id) if here else None
    if here is None or state is None:
        return []
    names = {None, device.id, device.serial, device.uuid, here.slot}
    return [
        {
            "node": here.node,
            "check": one.name,
            "status": str(one.status),
            "since": brief(one.since),
            "at": brief(one.at),
            "findings": [
                {"status": str(said.status), "code": said.code, "device": said.device, "message": said.message}
                for said in one.findings
                if said.device in names
            ],
        }
        for one in state.checks.values()
        if one.name.startswith(f"{DCGM}.")
    ]
