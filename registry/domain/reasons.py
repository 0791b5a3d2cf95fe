# SPDX-License-Identifier: Apache-2.0
"""Which reasons speak against a node, and how is each told to a person who was woken by it?

Every message says what is wrong, on which device, since when, and what to do next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TypeAlias

from registry.domain.checks import CheckState, kind_of
from registry.domain.condition_shown import FLAPS
from registry.domain.decision import DeviceRef, Reason, ReasonCode
from registry.domain.node_facts import HoldOn, NodeFacts
from registry.domain.passes import effective_have, retry_at
from registry.domain.policy import Policy
from registry.domain.quarantine import HoldMatch
from registry.domain.reports import CheckResult, CheckStatus
from registry.domain.staleness import is_stale
from registry.domain.times import brief

Question: TypeAlias = Callable[[NodeFacts, Policy, datetime], Iterator[Reason]]
"""Asks for one kind of reason: facts, policy and now in, as many reasons as apply out."""


def unknown_node(facts: NodeFacts, _policy: Policy, _now: datetime) -> Iterator[Reason]:
    """The one reason for a node without records: nothing else is known of it."""
    told = f"No node named {facts.node} has reported, or it was retired."
    if facts.asking is not None:
        told = f"Instance {facts.asking} of node {facts.node} has not reported: the records are of another instance."
    yield Reason(
        ReasonCode.NODE_UNKNOWN,
        f"{told} Next: let it report (`pratique report`, or start its agent); the first report makes it known.",
    )


def _profile(facts: NodeFacts, _policy: Policy, _now: datetime) -> Iterator[Reason]:
    if facts.profile is not None:
        return
    named = facts.profile_name or "<name>"
    said = f"names the profile {named}, which nobody has described" if facts.profile_name else "names no profile"
    yield Reason(
        ReasonCode.PROFILE_UNKNOWN,
        f"The node {said}, so it is not known what it should carry. "
        f"Next: PUT /v1/profiles/{named}, or `pratique profile set {named}`, with the devices expected; "
        f"or let the node report a known profile.",
    )


def _staleness(facts: NodeFacts, policy: Policy, _now: datetime) -> Iterator[Reason]:
    silence, limit = facts.silence_seconds, policy.report_stale_seconds
    if not is_stale(silence, policy):
        return
    said = "No report has come" if silence is None else f"The last report is {silence:.0f} s old"
    yield Reason(
        ReasonCode.REPORT_STALE,
        f"{said}, the limit is {limit} s. Next: see whether the node is up and its agent runs and reaches us.",
    )


def held_devices(facts: NodeFacts, _policy: Policy, _now: datetime) -> Iterator[Reason]:
    """One reason per device, told by its oldest hold: that one must be released in any case."""
    if not facts.holds:
        return
    by_device: dict[DeviceRef, list[HoldOn]] = {}
    for hold in sorted(facts.holds, key=lambda hold: hold.opened_at):
        if hold.device is not None:
            by_device.setdefault(hold.device, []).append(hold)
    reach = Counter(hold.hold_id for group in by_device.values() for hold in group)
    for device in sorted(by_device, key=_place):
        oldest, *others = by_device[device]
        yield Reason(
            ReasonCode.DEVICE_QUARANTINED,
            _held(str(device), oldest, others, reach[oldest.hold_id]),
            device=device,
            quarantine=oldest.hold_id,
            match=oldest.match,
        )


def _held_node(facts: NodeFacts, _policy: Policy, _now: datetime) -> Iterator[Reason]:
    for hold in facts.holds:
        if hold.device is None:
            message = _held(f"Node {facts.node}", hold, [])
            yield Reason(ReasonCode.NODE_QUARANTINED, message, quarantine=hold.hold_id, match=hold.match)


def _held(subject: str, hold: HoldOn, others: list[HoldOn], reach: int = 1) -> str:
    """Word a hold. `reach` is how many devices here it meets: several are held for the board that they share."""
    parts = [f"{subject} is in quarantine since {brief(hold.opened_at)} by {_owner(hold)}: {_sentence(hold.reason)}"]
    if reach > 1:
        parts.append(f"The hold is on the whole board, with all {reach} devices that it carries here.")
    if hold.match is HoldMatch.PLACE:
        parts.append("This hold rests on the place, not on the hardware, and ends with this instance.")
    if others:
        parts.append(f"Also held by {', '.join(f'{_owner(other)} ({other.hold_id})' for other in others)}.")
    parts.append(f"Next: `pratique quarantine show {hold.hold_id}`; release it when the cause is gone.")
    return " ".join(parts)


def _owner(hold: HoldOn) -> str:
    return f"{hold.owner.kind} {hold.owner.name}"


def withheld(facts: NodeFacts, _policy: Policy, _now: datetime) -> Iterator[Reason]:
    """One reason for each hold that a rule wanted here and did not get."""
    for one in facts.withheld:
        subject = str(one.device) if one.device else f"node {facts.node}"
        yield Reason(
            ReasonCode.QUARANTINE_WITHHELD,
            f"Rule {one.rule} would have held {subject}{_since(one.at)}, but too many nodes were held at once: "
            f"{_sentence(one.reason)} Next: look for a common cause. If there is one, withdraw the failure or release "
            f"the device; if there is none, quarantine it by hand.",
            device=one.device,
        )


def _missing(facts: NodeFacts, _policy: Policy, _now: datetime) -> Iterator[Reason]:
    for kind, listed, expected in _counts(facts):
        if listed >= expected:
            continue
        counted = f"{listed} of {expected} {_plural(kind)} are listed"
        count = facts.checks.get(f"{kind}.count")
        is_awaited = count is not None and count.status is CheckStatus.UNKNOWN
        next_gone = _NEXT_AWAITED if is_awaited else _NEXT_GONE.get(kind, _NEXT_MISSING)
        next_fewer = _NEXT_AWAITED if is_awaited else _NEXT_FEWER.get(kind, _NEXT_MISSING)
        gone = sorted((device for device in facts.missing if device.kind == kind), key=_place)
        for device in gone:
            message = f"{device} was here and is no longer listed; {counted}. {next_gone}"
            yield Reason(ReasonCode.DEVICE_MISSING, message, device=device)
        if not gone:
            message = f"Only {counted}, and none that was here is on record as missing. {next_fewer}"
            yield Reason(ReasonCode.DEVICE_MISSING, message, have=listed, need=expected)


_NEXT_MISSING = (
    "Next: read what the kernel log says of its place. If the bus still shows it there, the driver did not take it; if "
    "not, a power cycle may bring it back. A waiver accepts the lower count."
)
_NEXT_GONE = {
    "efa": "Next: see whether its interface is still attached to the instance and the efa driver is loaded; "
    "a waiver accepts the lower count."
}
_NEXT_FEWER = {
    "efa": "Next: look at the network interfaces of the launch template: each EFA is one of them, and an instance has "
    "those that it was launched with. Correct the template and launch anew, or let a waiver accept the lower count."
}
"""An adapter that never was is seldom broken: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html"""
_NEXT_AWAITED = "Next: wait; some come up late after a boot, and the next report counts again."


def _unexpected(facts: NodeFacts, _policy: Policy, _now: datetime) -> Iterator[Reason]:
    for kind, listed, expected in _counts(facts):
        if listed > expected:
            yield Reason(
                ReasonCode.DEVICE_UNEXPECTED,
                f"{listed} {_plural(kind)} are listed where {expected} are expected. "
                f"Next: correct the profile the node names, or end the waiver that lowers the count.",
                have=listed,
                need=expected,
            )


def _counts(facts: NodeFacts) -> Iterator[tuple[str, int, int]]:
    """Give kind, listed and expected where both are known: without a list nothing is known to be missing."""
    for kind, expected in facts.expected_counts.items():
        listed = facts.listed_counts.get(kind)
        if listed is not None and expected is not None:
            yield kind, listed, expected


def _unidentified(facts: NodeFacts, _policy: Policy, _now: datetime) -> Iterator[Reason]:
    for device in facts.unidentified:
        yield Reason(
            ReasonCode.DEVICE_UNIDENTIFIED,
            f"{device} shows neither a usable UUID nor a usable serial, so its record cannot be found. "
            f"Next: read it again with nvidia-smi as root; reset the device if it answers with errors.",
            device=device,
        )


def _conflicts(facts: NodeFacts, _policy: Policy, _now: datetime) -> Iterator[Reason]:
    for device, told in facts.conflicts:
        message = (
            f"{_sentence(told)} Next: `pratique conflict list`, then resolve it as the same or as different devices."
        )
        yield Reason(ReasonCode.IDENTITY_CONFLICT, message, device=device)


def _unattached(facts: NodeFacts, _policy: Policy, _now: datetime) -> Iterator[Reason]:
    for code, slot, at in facts.unattached:
        why = f"in {slot} fits no device that was known there" if slot else "outlives a boot and names no device"
        yield Reason(
            ReasonCode.FAULT_UNATTACHED,
            f"Fault {code} at {brief(at)} {why}. Next: find the device it means and report it for that device; "
            f"then withdraw this one, which GET /v1/failures?node={facts.node}&attached=false lists.",
        )


def _failing(facts: NodeFacts, _policy: Policy, _now: datetime) -> Iterator[Reason]:
    for name in sorted(facts.checks):
        state = facts.checks[name]
        if state.status is not CheckStatus.FAIL:
            continue
        failed = [one for one in state.findings if one.status is CheckStatus.FAIL]
        by_device = {one.device: one for one in reversed(failed) if one.device}
        for text in sorted(by_device):
            yield _failing_reason(
                state, by_device[text], facts.device_named(text) or DeviceRef.named(text, kind_of(name))
            )
        if not by_device:
            yield _failing_reason(state, failed[0] if failed else None, None)
    yield from _flapping(facts)


def _flapping(facts: NodeFacts) -> Iterator[Reason]:
    """What comes and goes is not well in between: the check fails in the long view."""
    for one in facts.conditions:
        if one.reason == FLAPS:
            on = f" on {one.device}" if one.device else ""
            ends = f" It counts as steady at {brief(one.clears_at)} if nothing changes." if one.clears_at else ""
            yield Reason(
                ReasonCode.CHECK_FAILING,
                f"Check {one.name} fails{on}: {_sentence(one.message)}{ends} Next: find what makes it come and go.",
                device=one.device,
                check=one.name,
            )


def _failing_reason(state: CheckState, finding: CheckResult | None, device: DeviceRef | None) -> Reason:
    on = f" on {device}" if device else ""
    told = _told(finding)
    message = (
        f"Check {state.name} fails{on} since {brief(state.since)}{told} Next: act on the cause, then run it again."
    )
    return Reason(ReasonCode.CHECK_FAILING, message, device=device, check=state.name)


def _undecided(facts: NodeFacts, _policy: Policy, _now: datetime) -> Iterator[Reason]:
    for name in facts.needed_checks:
        state = facts.checks.get(name)
        if state is None or state.status not in {CheckStatus.UNKNOWN, CheckStatus.SKIPPED}:
            continue
        said = "was skipped" if state.status is CheckStatus.SKIPPED else "could not tell"
        told = _told(state.findings[0] if state.findings else None)
        message = f"Check {name} {said} since {brief(state.since)}{told} Next: let it look; unknown is not healthy."
        yield Reason(ReasonCode.CHECK_UNKNOWN, message, check=name)


def _conditions(facts: NodeFacts, _policy: Policy, _now: datetime) -> Iterator[Reason]:
    for one in facts.condition_failures:
        on = f" of {one.device}" if one.device else ""
        told = _sentence(one.message or one.reason)
        ends = f" It is over at {brief(one.clears_at)} if all stays well." if one.clears_at else ""
        yield Reason(
            ReasonCode.CONDITION_FAILURE,
            f"Condition {one.name}{on} is in failure since {brief(one.since)}: {told}{ends} "
            "Next: move the work away and repair it.",
            device=one.device,
            check=one.name,
        )


def _passes(facts: NodeFacts, policy: Policy, now: datetime) -> Iterator[Reason]:
    have, need = effective_have(facts.have, facts.silence_seconds, policy), policy.pass_count
    if have >= need:
        return
    per_boot = facts.profile.per_boot_checks if facts.profile else ()
    absent = [name for name in dict.fromkeys((*facts.needed_checks, *per_boot)) if name not in facts.checks]
    lacking = f" No result in this boot yet: {', '.join(absent)}." if absent else ""
    again = retry_at(facts.last_counted_start, policy, now)
    yield Reason(
        ReasonCode.PASSES_INSUFFICIENT,
        f"{have} of {need} clean passes.{lacking} Next: a complete clean run that starts at {brief(again)} or later.",
        have=have,
        need=need,
        retry_at=again,
    )


def _maintenance(facts: NodeFacts, _policy: Policy, now: datetime) -> Iterator[Reason]:
    until = facts.maintenance_until
    if until is None or until <= now:
        return
    why = f": {_sentence(facts.maintenance_reason)}" if facts.maintenance_reason else "."
    message = (
        f"In maintenance until {brief(until)}{why} Next: wait, or end it by setting `until` to a time in the past."
    )
    yield Reason(ReasonCode.MAINTENANCE, message, until=until)


def safe_mode(facts: NodeFacts, _policy: Policy, _now: datetime) -> Iterator[Reason]:
    """Refuse everybody while the service is not sure of its records."""
    if facts.safe_mode:
        yield Reason(
            ReasonCode.SERVICE_SAFE_MODE,
            "The service is not sure that its records are whole and admits nobody. "
            "Next: an administrator checks them (`pratique doctor`) and then calls POST /v1/service/acknowledge.",
        )


QUESTIONS: tuple[Question, ...] = (
    _profile,
    _staleness,
    held_devices,
    _held_node,
    withheld,
    _missing,
    _unexpected,
    _unidentified,
    _conflicts,
    _unattached,
    _failing,
    _undecided,
    _conditions,
    _passes,
    _maintenance,
    safe_mode,
)
"""One question per reason code, in the order of the codes; `node_unknown` stands alone and is not among them."""


def _place(device: DeviceRef) -> tuple[str, str, str]:
    return device.kind or "", device.slot or "", device.id or ""


def _plural(kind: str) -> str:
    return {"gpu": "GPUs", "efa": "EFA adapters"}.get(kind, f"{kind} devices")


def _since(moment: datetime | None) -> str:
    return f" since {brief(moment)}" if moment else ""


def _told(finding: CheckResult | None) -> str:
    """Quote a finding after a colon, or end the sentence."""
    said = (finding.message or finding.code) if finding else None
    return f": {_sentence(said)}" if said else "."


def _sentence(text: str) -> str:
    """End a quoted text with a full stop, once."""
    return text if text.endswith((".", "!", "?")) else f"{text}."
