# SPDX-License-Identifier: Apache-2.0
"""Which fails of `gpu.xid` rest on lines of the kernel's log that are dealt with? Those hinder nothing any more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from registry.domain.failures import Effect, look_up
from registry.domain.log_lines import CHECK, Line, heard_at, is_line, why_over
from registry.domain.policy import Policy
from registry.domain.reports import CheckResult, CheckStatus, Report, ReportedFailure
from registry.services.evidence import Places
from registry.services.lives import Arrival
from registry.services.ruling import is_known_to_a_person
from registry.store import failures, sights
from registry.store.database import Transaction
from registry.store.devices import Device
from registry.store.failures import Failure


def with_settled(
    tx: Transaction, arrival: Arrival, report: Report, results: Iterable[CheckResult], policy: Policy
) -> tuple[CheckResult, ...]:
    """Turn each fail of `gpu.xid` that rests on faults which are over into a pass that says why they are.

    The faults of the report are recorded before. A fail without a code rests on all that this boot's log has shown of
    the device: an agent tells each line once. One with a code, of somebody who tells no lines, is news when it begins
    and rests on the faults of that code afterwards.
    """
    results = tuple(results)
    failing = [one for one in results if _is_log_failing(one)]
    if not failing:
        return results
    here = {found: device for device, _, found in Places(tx, arrival).put(failing)}
    judge = _Judge(tx, arrival, report, policy)
    return tuple(judge.settle(one, here.get(one)) if _is_log_failing(one) else one for one in results)


def is_log_failing(report: Report) -> bool:
    """Tell whether a report has such a fail: whether it still counts does not follow from what the report says."""
    return any(map(_is_log_failing, report.checks))


def _is_log_failing(one: CheckResult) -> bool:
    return one.name == CHECK and one.status is CheckStatus.FAIL


@dataclass(frozen=True, slots=True)
class _Judge:
    tx: Transaction
    arrival: Arrival
    report: Report
    policy: Policy
    _shown: dict[str, tuple[list[Failure], datetime | None]] = field(default_factory=dict)
    """What this boot has shown, by device: of many fails of places with no known device it is read once."""

    def settle(self, found: CheckResult, device: Device | None) -> CheckResult:
        """Give the result as it counts. `device` is None for a fail of the node, or of a place with no known device."""
        boot = self.arrival.boot
        shown, restarted_at = self._shown_on(device.id if device else "")
        mine = [one for one in shown if _is_about(one, found, device)]
        lines = self._lines(found, mine)
        said: dict[str, None] = {}
        for one in lines:
            line = self._line(one)
            is_known = device is not None and is_known_to_a_person(self.tx, device, line.seen_at)
            why = why_over(line, booted_at=boot.started_at, restarted_at=restarted_at, is_known_to_a_person=is_known)
            if why is None:
                return found
            said[f"{one.code}: {why}"] = None
        if not said:
            return found
        message = f"the kernel log still shows {'; '.join(said)}"
        return replace(found, status=CheckStatus.PASS, code=found.code or lines[0].code, message=message)

    def _shown_on(self, device_id: str) -> tuple[list[Failure], datetime | None]:
        """What this boot has shown on a device and on the node as a whole, and when it last began anew."""
        if device_id not in self._shown:
            boot, node = self.arrival.boot, self.arrival.node
            found = failures.of_boot(self.tx, boot.id, node_id=node.id, device_id=device_id)
            restarts = (one.last_at for one in found if one.state == "active" and self._proves_restart(one))
            self._shown[device_id] = (found, max(restarts, default=None))
        return self._shown[device_id]

    def _lines(self, found: CheckResult, mine: list[Failure]) -> list[Failure]:
        """What a fail rests on; nothing when that is not known, because its message is new or still on the way."""
        told = [one for one in self.report.failures if is_line(one.evidence) and _is_at(one, found)]
        earlier = [one for one in map(self._on_record, told) if one is not None]
        together = {one.id: one for one in (*mine, *earlier)}.values()
        if found.code is None:
            return [one for one in together if is_line(one.evidence) and look_up(one.code).effect.is_blocking]
        before = self.arrival.state.checks.get(CHECK)
        went_on = {(one.device, one.code) for one in before.findings} if before else set()
        is_told = any(one.code == found.code for one in told) or (found.device, found.code) in went_on
        return [one for one in together if one.code == found.code] if is_told else []

    def _on_record(self, told: ReportedFailure) -> Failure | None:
        known = sights.find_told(self.tx, self.report.node, told.failure_id)
        return known.failure if known else None

    def _proves_restart(self, one: Failure) -> bool:
        return self.policy.look_up(one.code).proves_restart

    def _line(self, one: Failure) -> Line:
        in_force = self.policy.look_up(one.code).effect
        return Line(
            one.code,
            effect=min(Effect(one.effect), in_force, key=lambda effect: effect.rank),
            seen_at=heard_at(one.last_at, one.recorded_at, one.evidence),
            is_withdrawn=one.state != "active",
            muted=one.muted,
            is_of_boot=one.boot_id == self.arrival.boot.id,
        )


def _is_about(one: Failure, found: CheckResult, device: Device | None) -> bool:
    """Tell whether a fault is of the device of a fail, or of its place where no list has shown one."""
    if device is not None:
        return one.device_id == device.id
    return one.device_id is None and one.slot == found.device


def _is_at(one: ReportedFailure, found: CheckResult) -> bool:
    return found.device in (one.slot, one.device)
