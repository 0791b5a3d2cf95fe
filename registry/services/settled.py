# SPDX-License-Identifier: Apache-2.0
"""Which faults that a kernel log still shows are dealt with? A line stays for as long as the log is kept; what it tells
of ends with a boot, with a reset that cures it, with maintenance around it, or with the word of a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from registry.domain.failures import Effect
from registry.domain.policy import Policy
from registry.domain.reports import CheckResult, CheckStatus, Report
from registry.services.evidence import Places
from registry.services.lives import Arrival
from registry.services.ruling import is_known_to_a_person
from registry.store import failures
from registry.store.database import Transaction
from registry.store.devices import Device
from registry.store.failures import Failure

CHECK, SOURCE = "gpu.xid", "kernel_log"


def without_settled(
    tx: Transaction, arrival: Arrival, report: Report, results: Iterable[CheckResult], policy: Policy
) -> tuple[CheckResult, ...]:
    """Leave out of the results of `gpu.xid` each fail that rests on faults which are over; without any left it passes.

    The faults of the report are recorded before. A fail with a code rests on the lines of that code in the same report,
    one without on all that this boot's log has shown of the device: an agent tells each line once.
    """
    results = tuple(results)
    failing = [one for one in results if _is_log_failing(one)]
    if not failing:
        return results
    told = {(one.code, place) for one in report.failures if _is_line(one.evidence) for place in (one.slot, one.device)}
    over = {
        found
        for device, _, found in Places(tx, arrival).put(failing)
        if _is_over(tx, arrival, device, found, policy, is_told=(found.code, found.device) in told)
    }
    left = [one for one in results if one not in over]
    if over and not any(one.name == CHECK for one in left):
        left.append(CheckResult(CHECK, CheckStatus.PASS, message="what the kernel log shows of this boot is over"))
    return tuple(left)


def is_log_failing(report: Report) -> bool:
    """Tell whether a report has such a fail: whether it still counts does not follow from what the report says."""
    return any(map(_is_log_failing, report.checks))


def _is_log_failing(one: CheckResult) -> bool:
    return one.name == CHECK and one.status is CheckStatus.FAIL and one.device is not None


def _is_line(evidence: object) -> bool:
    return isinstance(evidence, dict) and evidence.get("source") == SOURCE


def _is_over(
    tx: Transaction, arrival: Arrival, device: Device, found: CheckResult, policy: Policy, *, is_told: bool
) -> bool:
    shown = failures.of_boot(tx, arrival.boot.id, node_id=arrival.node.id, device_id=device.id)
    of_device = [one for one in shown if one.device_id]
    if found.code is None:
        lines = [one for one in of_device if _is_line(one.evidence)]
        is_told = bool(lines)  # else its message is still on the way
    else:
        lines = [one for one in of_device if one.code == found.code]
    return is_told and all(_is_dealt_with(tx, device, one, shown, policy) for one in lines)


def _is_dealt_with(tx: Transaction, device: Device, line: Failure, shown: Sequence[Failure], policy: Policy) -> bool:
    effect = Effect(line.effect)
    if line.state != "active" or line.muted is not None or not effect.is_blocking:
        return True
    proofs = (one for one in shown if one.state == "active" and policy.look_up(one.code).proves_restart)
    restarts = [one.last_at for one in proofs]
    if effect is not Effect.PERMANENT and max(restarts, default=line.last_at) > line.last_at:
        return True
    return is_known_to_a_person(tx, device, line.last_at)
