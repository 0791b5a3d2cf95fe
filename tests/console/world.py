# SPDX-License-Identifier: Apache-2.0
"""Which fleet do the pages show in tests and pictures? Eighteen nodes with a month behind them, told day by day.

One GPU fails on three nodes under three names; others fail once, wait for an operator, are missing, are disputed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from registry.admin.demo_server import RunningServer, Stage, start_server
from registry.admin.ground import SYSTEM, open_ready
from registry.domain.failures import Cause
from registry.domain.job_events import JobEvent, JobEventKind, Unit
from registry.domain.reports import CheckResult, CheckStatus, DeviceEntry
from registry.domain.roles import Role
from registry.services import capacity, keys, nodes, tokens
from registry.services.jobs import record_job_events
from registry.services.quarantine import release_quarantine
from registry.store import tallies
from registry.store.database import Database, to_micros
from tests.clock import Clock
from tests.fleet import ALICE, CLEAN_GPU, Fleet, efa, gpu, passing, serial, uuid

PROFILE = "p5.48xlarge"
GPUS, EFAS = 8, 32
CHECKS = passing(*CLEAN_GPU, "efa.link")
DAYS = 30

WANDERER = 103
"""The GPU that fails wherever it goes; first it is in `gpu-a01`."""

SHORT_LIVED = 205
"""Fell off the bus two days ago and waits for an operator."""

NODES = tuple(f"gpu-{zone}{number:02d}" for numbers in (range(1, 5), (5, 6)) for zone in "abc" for number in numbers)
"""The number of each GPU is a hundred times the place of its node in here, from 1 on, and its slot."""

HOT = 301
"""Runs hotter than its neighbours."""

SILENCE_SECONDS = 86_400
"""How long a node may be silent here: a month in which each reports twice a minute would take too long to tell."""

LOOK_HOURS = 4
"""How often the story looks at the capacity; once a minute would take too long to tell."""

STALE, RESTING, DISPUTED, SHORT = "gpu-c04", "gpu-c03", "gpu-b04", "gpu-b03"


@dataclass(frozen=True, slots=True)
class World:
    """A fleet in a database of its own, and tokens to look at it with."""

    stage: Stage
    tokens: Mapping[str, str]

    def serve(self) -> RunningServer:
        """Start a server that shows it."""
        return start_server(self.stage)


def build_world(folder: Path) -> World:
    """Tell the whole story up to this moment, in an empty folder."""
    stage = Stage.set_up(folder)
    # Nobody reports while the pages are looked at.
    own = {
        **stage.environment,
        "PRATIQUE_REPORT_STALE_SECONDS": str(SILENCE_SECONDS),
        "PRATIQUE_PASS_MAX_AGE_SECONDS": str(SILENCE_SECONDS),
    }
    stage = replace(stage, environment=own)
    clock = Clock(datetime.now(UTC).replace(microsecond=0) - timedelta(days=DAYS))
    with open_ready(stage.settings) as db:
        secrets = _make_tokens(db, keys.load_pepper(stage.settings), clock.now)
        policy = replace(
            stage.settings.policy, report_stale_seconds=SILENCE_SECONDS, pass_max_age_seconds=SILENCE_SECONDS
        )
        _Teller(Fleet(db, clock, policy)).tell()
    return World(stage, secrets)


def _make_tokens(db: Database, pepper: bytes, now: datetime) -> dict[str, str]:
    names = {Role.OPERATOR: "alice", Role.AUDITOR: "vera", Role.ADMIN: "root"}
    return {
        str(role): tokens.create_token(db, role=role, name=name, pepper=pepper, actor=SYSTEM, now=now)[1]
        for role, name in names.items()
    }


class _Teller:
    """Tells the story: which devices are in which node, and what happens to them."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.end = fleet.clock.now + timedelta(days=DAYS)
        self.racks = {
            name: [gpu(100 * at + slot, at=slot) for slot in range(1, GPUS + 1)]
            for at, name in enumerate(NODES, start=1)
        }
        self.lives = dict.fromkeys(NODES, 1)
        self.silent: set[str] = set()
        self.looks = 0

    def tell(self) -> None:
        for name in NODES:
            self.report(name, twice=True)
        self._wander()
        self._trouble()
        self._today()
        self._jobs()

    def days_before(self, days: float) -> None:
        """Let time pass until so many days are left; in the last week the service looks at the nodes."""
        until, step = self.end - timedelta(days=days), timedelta(hours=LOOK_HOURS)
        while self.fleet.clock.now + step <= until:
            self.fleet.clock.now += step
            if self.end - self.fleet.clock.now < timedelta(days=7):
                self.look()
        self.fleet.clock.now = until

    def look(self) -> None:
        """Let the nodes report now and then, and keep where their time went."""
        self.looks += 1
        if self.looks % 4 == 1:
            for name in NODES:
                if name not in self.silent:
                    self.report(name, twice=self.looks == 1)
        now = self.fleet.clock.now
        seen = capacity.survey(self.fleet.db, NODES, policy=self.fleet.policy, now=now)
        with self.fleet.db.write(now) as tx:
            tallies.add_capacity(tx, seen, to_micros(now) - to_micros(now - timedelta(hours=LOOK_HOURS)))
            tallies.set_look(tx)

    def report(self, name: str, *, twice: bool = False, checks: tuple[CheckResult, ...] = CHECKS) -> None:
        """Let a node send its list, and again after the gap where it is to be admitted."""
        for again in range(2 if twice else 1):
            if again:
                self.fleet.clock.advance(31)
            life = self.lives[name]
            self.fleet.report(
                name,
                [
                    *(self.gpu_now(name, one) for one in self.racks[name]),
                    *(efa(100 * NODES.index(name) + at, at=at) for at in range(EFAS)),
                ],
                instance=f"aws:///us-east-1{name[4]}/i-0{NODES.index(name):02x}{life:02x}4d5e6f70",
                boot=f"boot-{name}-{life}",
                profile=PROFILE,
                checks=checks,
                zone=f"us-east-1{name[4]}",
            )

    def gpu_now(self, name: str, entry: DeviceEntry) -> DeviceEntry:
        """What its node prints of a GPU: versions, and how warm it is."""
        place = self.racks[name].index(entry)
        celsius = 58 + place % 4 + (13 if entry.serial == serial(HOT) else 0)
        driver = "570.172.08" if name.startswith("gpu-c") else "580.95.05"
        return replace(
            entry,
            firmware={"vbios": "96.00.CF.00.02", "driver": driver},
            readings={"temperature_celsius": celsius, "power_watts": 612 + place, "utilization_percent": 98},
        )

    def move(self, number: int, *, out_of: str, into: str, at: int) -> None:
        """Give an instance back, and let the same board turn up in a slot of another new one."""
        moved = next(one for one in self.racks[out_of] if one.serial == serial(number))
        place = self.racks[out_of].index(moved)
        self.racks[out_of][place] = gpu(number + 1000 * (4 + self.lives[out_of]), at=place + 1)
        self.racks[into][at - 1] = replace(moved, slot=self.racks[into][at - 1].slot)
        for name in (out_of, into):
            self.lives[name] += 1
            self.report(name, twice=True)

    def fail(self, code: str, name: str, number: int, message: str) -> None:
        """Let a node tell of a fault of one of its GPUs."""
        slot = next(one.slot for one in self.racks[name] if one.serial == serial(number))
        self.fleet.fail(code, node=name, slot=slot, occurred_at=self.fleet.clock.now, message=message)

    def release_all(self, reason: str) -> None:
        """Let an operator believe that all is well again."""
        for hold in self.fleet.open_holds():
            release_quarantine(
                self.fleet.db, hold["id"], reason=reason, actor=ALICE, role="operator", now=self.fleet.clock.now
            )

    def _wander(self) -> None:
        """The story of one bad card."""
        self.days_before(24)
        self.fail("xid_63", "gpu-a01", WANDERER, "Row remapping event: 2 rows remapped")
        self.days_before(21)
        self.fail("xid_79", "gpu-a01", WANDERER, "GPU has fallen off the bus.")
        self.days_before(19.5)
        self.release_all("Reseated by the vendor; 24 h of burn-in without a fault")
        self.report("gpu-a01", twice=True)
        self.days_before(14)
        self.move(WANDERER, out_of="gpu-a01", into="gpu-b02", at=6)
        self.days_before(9)
        self.fail("xid_48", "gpu-b02", WANDERER, "Double bit ECC error")
        self.fail("xid_79", "gpu-b02", WANDERER, "GPU has fallen off the bus.")
        self.days_before(3)
        self.move(WANDERER, out_of="gpu-b02", into="gpu-c02", at=2)

    def _trouble(self) -> None:
        """What else went wrong."""
        self.days_before(2)
        self.report(STALE)
        self.silent.add(STALE)
        self.fail("xid_79", "gpu-a02", SHORT_LIVED, "GPU has fallen off the bus.")
        self.fail("xid_64", "gpu-b01", 502, "Row remapper failure")
        self.fail("xid_94", "gpu-a04", 404, "Contained memory error")
        self.days_before(1)
        self.fleet.hold(
            {"device": serial(HOT)},
            reason="Runs 11 degrees hotter than its neighbours under the same load",
            ticket="OPS-4711",
            cause="hardware.thermal",
            review_at=self.end - timedelta(hours=6),
        )
        nodes.set_maintenance(
            self.fleet.db,
            RESTING,
            until=self.end + timedelta(hours=8),
            reason="Firmware of the switch",
            actor=ALICE,
            policy=self.fleet.policy,
            now=self.fleet.clock.now,
        )

    def _today(self) -> None:
        """How every node stands now."""
        self.days_before(2 / 1440)
        self.racks[SHORT] = self.racks[SHORT][:-1]
        self.racks[DISPUTED][2] = replace(self.racks[DISPUTED][2], serial=serial(9999))
        for name in NODES:
            if name != STALE:
                self.report(name)
        self.fleet.clock.advance(31)
        bad = (*CHECKS, CheckResult("gpu.thermal", CheckStatus.FAIL, device=uuid(903), message="HW slowdown active"))
        for name in NODES:
            if name != STALE:
                self.report(name, checks=bad if name == "gpu-c01" else CHECKS)

    def _jobs(self) -> None:
        """A training that lost a node two days ago and went on without it."""
        hour, begin = 3_600_000_000, to_micros(self.end - timedelta(days=5))
        ran = ("gpu-a04", "gpu-a05", "gpu-b01", "gpu-b05")
        went_on = ("gpu-a04", "gpu-a05", "gpu-a06", "gpu-b05")
        events = [JobEvent("m-1", JobEventKind.STARTED, begin, nodes=ran, devices=32)]
        events += [_progress(at, begin + at * hour) for at in range(1, 72)]
        lost = begin + 71 * hour + hour // 2
        events.append(JobEvent("lost", JobEventKind.INTERRUPTED, lost, cause=Cause.HARDWARE, nodes=("gpu-b01",)))
        events.append(JobEvent("m-2", JobEventKind.STARTED, lost + hour // 4, nodes=went_on, devices=32))
        events += [_progress(at, begin + (at + 1) * hour) for at in range(72, 119)]
        record_job_events(
            self.fleet.db,
            "llama-70b-pretrain",
            events,
            actor=ALICE,
            policy=self.fleet.policy,
            now=self.fleet.clock.now,
        )


def _progress(hours: int, at: int) -> JobEvent:
    """A message after so many hours of work; what it did is safe."""
    return JobEvent(
        f"step-{hours}", JobEventKind.PROGRESS, at, step=hours * 400, checkpoint=hours * 400 - 20, unit=Unit.STEP
    )
