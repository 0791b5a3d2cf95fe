# SPDX-License-Identifier: Apache-2.0
"""How does a test speak for nodes? Entries, reports and operators' acts against the real services, on its own clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from registry.domain.actors import Actor, ActorKind
from registry.domain.decision import Decision
from registry.domain.policy import Policy
from registry.domain.reports import CheckResult, CheckStatus, DeviceEntry, Report, ReportedFailure
from registry.services.admission import decide_admission
from registry.services.failures import record_failures
from registry.services.pages import PageRequest
from registry.services.quarantine import OpenQuarantines, list_quarantines, open_quarantines, release_quarantine
from registry.services.reports import accept_report
from registry.store.database import Database
from tests.clock import Clock

ALICE = Actor(ActorKind.OPERATOR, "alice")
EVERYTHING = PageRequest(1000, None, newest_first=False)
CLEAN_GPU = ("gpu.ecc", "gpu.row_remap", "gpu.xid")
_ids = count(1)


def serial(number: int) -> str:
    """The thirteen digits of a serial."""
    return f"{1650000000000 + number:013d}"


def uuid(number: int) -> str:
    """A UUID as nvidia-smi prints it."""
    return f"GPU-aaaa{number:04x}-0000-0000-0000-{number:012x}"


def gpu(number: int, *, at: int | None = None, **changes: Any) -> DeviceEntry:
    """GPU `number` of the world, by default in the slot of its own number; `at` puts it in another."""
    place = number if at is None else at
    entry = DeviceEntry(
        "gpu",
        "nvidia",
        slot=f"0000:{0x10 + place:02x}:00.0",
        serial=serial(number),
        uuid=uuid(number),
        model="NVIDIA H100 80GB HBM3",
    )
    return replace(entry, **changes)


def efa(number: int, *, at: int | None = None, **changes: Any) -> DeviceEntry:
    """EFA adapter `number` of the world, known by its place and MAC."""
    place = number if at is None else at
    mac = f"02:ab:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}:01"
    entry = DeviceEntry("efa", "amazon", slot=f"0000:{0x80 + place:02x}:00.0", mac=mac, name=f"rdmap{place}s0")
    return replace(entry, **changes)


def passing(*names: str) -> tuple[CheckResult, ...]:
    """Clean results of these checks."""
    return tuple(CheckResult(name, CheckStatus.PASS) for name in names)


@dataclass
class Fleet:
    """The service as nodes and operators meet it. Every act happens at `clock.now`.

    The default node is a `g5.xlarge`-like one: profile `g5.12xlarge`, four GPUs, no EFA expected.
    """

    db: Database
    clock: Clock
    policy: Policy = field(default_factory=Policy)

    def report(
        self,
        node: str = "node-a",
        devices: Iterable[DeviceEntry] | None = None,
        *,
        instance: str = "i-1",
        boot: str = "boot-1",
        profile: str = "g5.12xlarge",
        checks: tuple[CheckResult, ...] = passing(*CLEAN_GPU),
        **changes: Any,
    ) -> dict[str, Any]:
        """Send a report and return its answer. `devices` are GPUs 0 to 3 unless given, `changes` fields of Report."""
        entries = tuple(gpu(number) for number in range(4)) if devices is None else tuple(devices)
        report_id = changes.pop("report_id", f"report-{next(_ids)}")
        report = Report(
            node=node,
            report_id=report_id,
            boot_id=boot,
            provider_id=instance,
            profile=profile,
            entries=changes.pop("entries", entries),
            checks=checks,
            body_digest=changes.pop("body_digest", report_id),
            **changes,
        )
        actor = Actor(ActorKind.NODE, node)
        return accept_report(self.db, report, actor=actor, policy=self.policy, now=self.clock.now)

    def admit(self, node: str = "node-a", **changes: Any) -> dict[str, Any]:
        """Send two clean reports a gap apart, and return the second answer."""
        self.report(node, **changes)
        self.clock.advance(self.policy.pass_gap_seconds)
        return self.report(node, **changes)

    def decide(self, node: str = "node-a") -> Decision:
        """Ask for the decision of now."""
        return decide_admission(self.db, node, policy=self.policy, now=self.clock.now)

    def codes(self, node: str = "node-a") -> list[str]:
        """The reason codes of the decision of now."""
        return [str(reason.code) for reason in self.decide(node).reasons]

    def fail(self, code: str, *, node: str | None = None, **where: Any) -> dict[str, Any]:
        """Record a fault and return its item."""
        failure_id = where.pop("failure_id", f"failure-{next(_ids)}")
        failure = ReportedFailure(failure_id, code, node=node, **where)
        items = record_failures(
            self.db, [failure], actor=ALICE, node_scope=None, policy=self.policy, now=self.clock.now
        )
        return items[0]

    def hold(self, *targets: dict[str, Any], by: Actor = ALICE, **how: Any) -> list[dict[str, Any]]:
        """Quarantine targets and return the items."""
        command = OpenQuarantines(targets=targets, reason=how.pop("reason", "it smells"), **how)
        return open_quarantines(self.db, command, actor=by, now=self.clock.now)

    def release(self, hold_id: str, *, by: Actor = ALICE, role: str = "operator") -> dict[str, Any]:
        """Release a hold."""
        return release_quarantine(self.db, hold_id, reason="tested", actor=by, role=role, now=self.clock.now)

    def open_holds(self) -> list[dict[str, Any]]:
        """All holds that are open."""
        return list_quarantines(self.db, {"state": "open"}, EVERYTHING, now=self.clock.now).items
