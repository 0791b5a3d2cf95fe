# SPDX-License-Identifier: Apache-2.0
"""What is asked of the server, beside what, and how fast is it meant to be?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from registry.domain.actors import Actor, ActorKind
from registry.domain.roles import Role
from registry.services.tokens import create_token
from registry.store.database import Database, to_micros
from tests.bench import machine
from tests.bench.entry import AUTHENTICATED, PARSED, STATIC
from tests.bench.generator import NUMBER, TURN, ask_for, write_requests
from tests.bench.load import HELD_SHARE, Size

NODES_MAX = 2_000
"""Machines that speak: enough that no cache holds them all by chance, few enough for the generator's memory."""

TURNING_MAX = 16
"""Machines whose check changes at each report: few, because the first report of a window may find it as it is."""

OWNERS = 8
"""Operators who open holds. Each may have one on a device, and a window must not run out of devices."""

REASON = "measured"


@dataclass(frozen=True, slots=True)
class Aim:
    """What a row is meant to reach: a share of each of other rows, requests a second, milliseconds."""

    share: float | None = None
    per_second: int | None = None
    p99: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One sort of request. `beside` names the rows that it is compared with, the one of the aim first."""

    name: str
    title: str
    beside: tuple[str, ...] = ()
    aim: Aim = Aim()
    writes: bool = False


ROWS = (
    Row("static", "bare static Flask view"),
    Row("auth", "view of ours that only authenticates"),
    Row("a", "admission, 8 GPUs and 32 EFAs", ("auth", "static"), Aim(share=0.8)),
    Row("parse", "view that authenticates and parses"),
    Row("b", "unchanged report, 40 devices, 10 checks", ("parse",), Aim(share=0.5, per_second=1200), writes=True),
    Row("c1", "changed report: a GPU's firmware", ("parse",), Aim(per_second=600, p99=50), writes=True),
    Row("c2", "changed report: a check's status", ("parse",), Aim(per_second=600, p99=50), writes=True),
    Row("d", "page of a device's history", ("auth",)),
    Row("f", "quarantine of a GPU", ("auth",), Aim(per_second=600), writes=True),
)
SLOW_DISK_SHARE = 0.5
"""With a slow disk half of each aim."""

GROWTH_MAX = 1.2
POSTGRESQL_MIN = 0.55
EXPORT_MIN = 150_000


def write_all(folder: Path, size: Size, db: Database, pepper: bytes, now: datetime) -> dict[str, Path]:
    """Write the requests of every row to files, and return those by row."""
    system = Actor(ActorKind.SYSTEM, "pratique")
    operators = [
        create_token(db, role=Role.OPERATOR, name=f"bench-{at}", pepper=pepper, actor=system, now=now)[1]
        for at in range(OWNERS)
    ]
    step = max(1, size.measured // NODES_MAX)
    speaking = list(range(0, size.measured, step))
    # Each sort of report has nodes of its own: a change by one would be a change for the other.
    same, flashed, turning = speaking[0::2], speaking[1::4], speaking[3::4][:TURNING_MAX]
    requests: dict[str, Iterable[bytes]] = {
        "static": [ask_for("GET", STATIC, None)],
        "auth": (ask_for("GET", AUTHENTICATED, machine.secret(one)) for one in same),
        "a": (_admission(one) for one in same),
        "parse": (_report(one, path=PARSED) for one in same),
        "b": (_report(one) for one in same),
        "c1": (_report(one, firmware=NUMBER) for one in flashed),
        "c2": (_report(one, ecc=TURN) for one in turning),
        "d": (ask_for("GET", f"/v1/devices/{machine.serial(one, 0)}/history", operators[0]) for one in speaking),
        "f": _holds(size, operators),
        "export": [operators[0].encode()],
    }
    return {name: write_requests(folder / f"{name}.requests", made) for name, made in requests.items()}


def _admission(number: int) -> bytes:
    return ask_for("GET", f"/v1/nodes/{machine.node_name(number)}/admission", machine.secret(number))


def _report(number: int, *, path: str | None = None, firmware: str = machine.FIRMWARE, ecc: str = "pass") -> bytes:
    where = path or f"/v1/nodes/{machine.node_name(number)}/reports"
    body = machine.report(number, f"report-{NUMBER}", firmware={0: firmware}, ecc=ecc)
    return ask_for("POST", where, machine.secret(number), body)


def _holds(size: Size, operators: list[str]) -> Iterator[bytes]:
    free = range(size.measured, size.nodes - max(1, int(size.nodes * HELD_SHARE)))
    nodes = free[:: max(1, len(free) // NODES_MAX)]
    for secret in operators:
        for number in nodes:
            for slot in range(machine.GPUS):
                body = {"targets": [{"device": machine.serial(number, slot)}], "reason": REASON}
                yield ask_for("POST", "/v1/quarantines", secret, body)


def end_holds(db: Database, now: datetime) -> None:
    """End what a window opened, behind the service's back: the next one wants the same devices."""
    with db.write(now) as tx:
        tx.execute(
            "UPDATE hold_target SET is_open = 0 WHERE is_open = 1 AND quarantine_id IN "
            "(SELECT id FROM quarantine WHERE state = 'open' AND reason = ?)",
            (REASON,),
        )
        tx.execute(
            "UPDATE quarantine SET state = 'released', released_at = ?, released_by = 'operator:bench', "
            "release_reason = ? WHERE state = 'open' AND reason = ?",
            (to_micros(now), REASON, REASON),
        )
