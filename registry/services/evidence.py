# SPDX-License-Identifier: Apache-2.0
"""When is the result of a check evidence against a device? When it fails, names a device, and says by a code what is
wrong: then it is a fault like any other, recorded when the check begins to fail and not at each report.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta

from registry.domain.actors import Actor
from registry.domain.identifiers import normalise_slot
from registry.domain.log_lines import CHECK as LOG
from registry.domain.passes import run_times
from registry.domain.policy import Policy
from registry.domain.reports import CheckResult, CheckStatus, Report, ReportedFailure
from registry.services.lives import Arrival
from registry.services.locating import Located
from registry.services.recording import Message, put_on_record
from registry.services.targets import forms_of
from registry.store import devices, failures, nodes, placements
from registry.store.database import Transaction
from registry.store.devices import Device
from registry.store.maintenance import was_in_maintenance
from registry.store.placements import Placement

RESET_CLEARS = frozenset({"gpu.row_remap.pending", "gpu.page_retirement", "gpu.requires_reset"})
"""What stands until the GPU is reset, whatever else happens: when it is gone, the GPU was reset.
https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/"""


def take_findings(
    tx: Transaction,
    arrival: Arrival,
    report: Report,
    results: Iterable[CheckResult],
    actor: Actor,
    policy: Policy,
) -> None:
    """Record what checks of a report found anew, and note what only a reset can have cleared.

    Works on the node's saved row, as a fault does: it is saved before and read again after.
    """
    results = tuple(results)
    # What the message tells as a fault with a time of its own is not found once more by its check.
    dated = [one for one in report.failures if one.occurred_at is not None]
    told = {(one.code, place) for one in dated for place in (one.slot, one.device)}
    faults = [one for one in results if one.status is CheckStatus.FAIL and one.device and _is_fault(one, policy)]
    failing = [one for one in faults if (one.code, one.device) not in told]
    cleared = _cleared(arrival, results)
    if not failing and not cleared:
        return
    places = Places(tx, arrival)
    nodes.save_state(tx, arrival.state)
    known = _known(arrival)
    for device, place, found in places.put(failing):
        is_news = (found.count or 0) > known.get((found.name, found.device, found.code), -1)
        if is_news or _is_unheard(tx, arrival, device, found, policy):
            _record(tx, arrival, report, device, place, found, actor, policy)
    for device, place, found in places.put(cleared):
        if place.since_at > arrival.state.checks[found.name].since:
            continue  # another device by now: nothing was reset
        gone = f"{found.code} is gone, which nothing but a reset clears"
        reset = CheckResult(found.name, CheckStatus.PASS, found.device, "gpu_reset", gone)
        _record(tx, arrival, report, device, place, reset, actor, policy)
    arrival.reload(tx)


def take_late_findings(tx: Transaction, arrival: Arrival, report: Report, actor: Actor, policy: Policy) -> None:
    """Record what checks of a late message found, each once for its boot: it says nothing of now."""
    failing = [one for one in report.checks if one.status is CheckStatus.FAIL and one.device and _is_fault(one, policy)]
    if not failing:
        return
    at = _then(tx, arrival, report)
    places = Places(tx, arrival, at=at)
    nodes.save_state(tx, arrival.state)
    for device, place, found in places.put(failing):
        if not failures.is_shown_in_boot(tx, str(found.code), device.id, arrival.boot.id):
            _record(tx, arrival, report, device, place, found, actor, policy, at=at)
    arrival.reload(tx)


def _is_fault(found: CheckResult, policy: Policy) -> bool:
    """A code that nobody knows says nothing of the device; that its check fails is reason enough."""
    return found.code is not None and policy.knows(found.code) and policy.look_up(found.code).is_fault


def _known(arrival: Arrival) -> dict[tuple[str, str | None, str | None], int]:
    """What failed before, and how far its counter stood: one that has risen since is news.

    A fail of the log that counted as a pass, because what it rests on was over, does not begin anew when it counts.
    """
    known: dict[tuple[str, str | None, str | None], int] = {}
    for one in (found for state in arrival.state.checks.values() for found in state.findings):
        if one.status is CheckStatus.FAIL or one.name == LOG:
            key = (one.name, one.device, one.code)
            known[key] = max(one.count or 0, known.get(key, 0))
    return known


def _is_unheard(tx: Transaction, arrival: Arrival, device: Device, found: CheckResult, policy: Policy) -> bool:
    """A check that began to fail in maintenance, and still does afterwards, is evidence from then on."""
    if was_in_maintenance(tx, arrival.node, tx.now) or not policy.look_up(str(found.code)).effect.is_blocking:
        return False
    return not failures.is_shown_in_boot(tx, str(found.code), device.id, arrival.boot.id)


def _cleared(arrival: Arrival, results: Iterable[CheckResult]) -> list[CheckResult]:
    """The findings that only a reset ends, of devices for which the check has come out clean now."""
    found = [one for state in arrival.state.checks.values() for one in state.findings if one.code in RESET_CLEARS]
    before = [one for one in found if one.status is not CheckStatus.PASS]
    if not before:
        return []
    now: dict[tuple[str, str | None], list[CheckStatus]] = {}
    for one in results:
        now.setdefault((one.name, one.device), []).append(one.status)
    return [one for one in before if one.device and set(now.get((one.name, one.device), ())) == {CheckStatus.PASS}]


class Places:
    """What is placed on the instance, now or at a time, so that findings can be put to it."""

    def __init__(self, tx: Transaction, arrival: Arrival, *, at: datetime | None = None) -> None:
        instance = arrival.instance.id
        found = placements.open_here(tx, instance) if at is None else placements.placed_at(tx, instance, at)
        here = {one.device_id: one for one in found}
        units = devices.get_devices(tx, here)
        self._by_name: dict[str, tuple[Device, Placement]] = {}
        for unit in sorted(units.values(), key=lambda one: one.id):
            place = here[unit.id]
            for name in (unit.id, unit.serial, unit.uuid, place.slot):
                # A serial names a board; of several units on it any will do, for the board is what is held.
                self._by_name.setdefault(name or "", (unit, place))

    def put(self, found: Iterable[CheckResult]) -> Iterable[tuple[Device, Placement, CheckResult]]:
        """Give each finding with its unit; those of a device that is not here are left out."""
        for one in found:
            names = {*forms_of(one.device or ""), normalise_slot(one.device) or ""} - {""}
            here = next((self._by_name[name] for name in sorted(names) if name in self._by_name), None)
            if here is not None:
                yield *here, one


def _record(
    tx: Transaction,
    arrival: Arrival,
    report: Report,
    device: Device,
    place: Placement,
    found: CheckResult,
    actor: Actor,
    policy: Policy,
    at: datetime | None = None,
) -> None:
    said = "|".join((report.report_id, found.name, str(found.code), device.id))
    reported = ReportedFailure(
        failure_id=f"check-{hashlib.sha256(said.encode()).hexdigest()[:32]}",
        code=str(found.code),
        device=found.device,
        node=report.node,
        slot=place.slot,
        occurred_at=at or _looked_at(tx, report),
        message=found.message,
        evidence={"check": found.name},
    )
    located = Located(device, arrival.node, arrival.boot, place.slot, is_past=arrival.is_past)
    told = Message(reported, located, actor, report.node, "", is_of_report=True)
    put_on_record(tx, told, policy)


def _then(tx: Transaction, arrival: Arrival, report: Report) -> datetime:
    """When a late message looked: that of a boot which is over did so before the next one was heard of."""
    looked_at = min(report.finished_at or _looked_at(tx, report), arrival.state.reported_at)
    current = nodes.get_boot(tx, arrival.state.boot_id) if arrival.is_past else None
    return min(looked_at, current.started_at - timedelta(microseconds=1)) if current else looked_at


def _looked_at(tx: Transaction, report: Report) -> datetime:
    """When the check looked, on the server's clock."""
    times = run_times(
        received_at=tx.now,
        first_received_at=tx.now,
        started_at=report.started_at,
        finished_at=report.finished_at,
        sent_at=report.sent_at,
    )
    return times.end
