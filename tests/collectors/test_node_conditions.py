# SPDX-License-Identifier: Apache-2.0
"""Are the conditions of a Kubernetes Node read by their type, each with its own polarity?"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.collectors import node_conditions
from registry.collectors.node_condition_types import KNOWN, NOT_OURS, check_name
from registry.collectors.node_conditions import collect, parse
from registry.domain.errors import PartUnreadable
from registry.domain.reports import CheckStatus, Findings

CHANGED = "2026-11-29T10:00:00Z"
NOW = "2026-11-29T12:00:00Z"


def condition(type_: str, status: object = "True", **changes: object) -> dict[str, Any]:
    """One condition that changed two hours ago and was confirmed just now; None leaves a field out."""
    made = {"type": type_, "status": status, "lastTransitionTime": CHANGED, "lastHeartbeatTime": NOW, **changes}
    return {name: value for name, value in made.items() if value is not None}


def node(*conditions: object, name: str = "node-a", uid: str = "u-1") -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": name, "uid": uid}, "status": {"conditions": list(conditions)}}


def read(*conditions: object) -> Findings:
    return parse(json.dumps(node(*conditions)).encode())


def status_of(*conditions: object) -> CheckStatus:
    (check,) = read(*conditions).checks
    return check.status


@pytest.mark.parametrize(
    ("type_", "status", "expected"),
    [
        ("XidCriticalError", "True", CheckStatus.FAIL),
        ("XidCriticalError", "False", CheckStatus.PASS),
        ("AcceleratedHardwareReady", "True", CheckStatus.PASS),
        ("AcceleratedHardwareReady", "False", CheckStatus.FAIL),
        ("KernelDeadlock", "False", CheckStatus.PASS),
        ("KernelReady", "False", CheckStatus.FAIL),
        ("GpuNvlinkWatch", "True", CheckStatus.FAIL),
        ("NVSwitchNonFatalError", "True", CheckStatus.WARN),
        ("XidErrorsProblem", "True", CheckStatus.FAIL),
        ("XidErrorsProblem", "Unknown", CheckStatus.UNKNOWN),
        ("XidCriticalError", True, CheckStatus.FAIL),
        ("AcceleratedHardwareReady", True, CheckStatus.PASS),
        ("AcceleratedHardwareReady", False, CheckStatus.FAIL),
        ("AcceleratedHardwareReady", None, CheckStatus.UNKNOWN),
        ("AcceleratedHardwareReady", "Perhaps", CheckStatus.UNKNOWN),
        ("AcceleratedHardwareReady", 1, CheckStatus.UNKNOWN),
    ],
)
def test_true_is_bad_in_some_types_and_good_in_others(type_: str, status: object, expected: CheckStatus) -> None:
    assert status_of(condition(type_, status)) is expected


def test_a_condition_is_known_by_its_type_and_not_by_its_reason() -> None:
    found = read(
        condition("XfsShutdown", "False", reason="XfsHasShutdown"), condition("XfsHasShutdown", "True", reason="x")
    )

    assert [(one.name, one.status) for one in found.checks] == [("condition.xfs_shutdown", CheckStatus.PASS)]
    assert [one.code for one in found.warnings] == ["unknown_condition"]
    assert "XfsHasShutdown" in found.warnings[0].message


def test_an_unknown_type_is_named_and_has_no_effect() -> None:
    found = read(condition("OurOwnThing", "True", reason="NvidiaXID79Error"), condition("Ready", "False"))

    assert (found.checks, found.failures) == ((), ())
    assert [one.message for one in found.warnings] == [
        "the condition OurOwnThing is not known here and has no effect",
    ]


def test_every_type_has_a_check_of_its_own_with_a_name_that_a_report_may_carry() -> None:
    names = [rule.check for rule in KNOWN.values()]

    assert len(set(names)) == len(names)
    assert not KNOWN.keys() & NOT_OURS
    assert check_name("SysLogsXIDError") == "condition.sys_logs_xid_error"
    assert all(len(name) <= 64 and name.replace("_", "").replace(".", "").isalnum() for name in names)
    assert all(name == name.lower() for name in names)


@pytest.mark.parametrize(
    ("reason", "codes"),
    [
        ({"31": True}, ["xid_31"]),
        ('{"31": true, "79": true, "48": false}', ["xid_31", "xid_79"]),
        ("[74, 79]", ["xid_74", "xid_79"]),
        ("NvidiaXID79Error", ["xid_79"]),
        ("XID 119, XID 120", ["xid_119", "xid_120"]),
        ("Xid error: 048", ["xid_48"]),
        ("NvidiaDoubleBitError", []),
        ('{"cut off: Xid 79', ["xid_79"]),
        ("{}", []),
        (None, []),
        (79, []),
    ],
)
def test_xid_codes_in_the_reason_become_failures_of_the_node(reason: object, codes: list[str]) -> None:
    failures = read(condition("XidCriticalError", "True", reason=reason)).failures

    assert [one.code for one in failures] == codes
    assert all(one.device is None and one.slot is None for one in failures)
    assert all(one.occurred_at == datetime(2026, 11, 29, 10, tzinfo=UTC) for one in failures)


def test_a_reason_counts_only_while_its_condition_is_bad() -> None:
    assert read(condition("XidCriticalError", "False", reason={"31": True})).failures == ()
    assert read(condition("AcceleratedHardwareReady", "True", reason="NvidiaXID79Error")).failures == ()
    assert read(condition("XidCriticalError", "Unknown", reason={"31": True})).failures == ()


def test_the_code_in_a_message_of_the_log_monitor_is_read() -> None:
    said = "ErrorCode:79 GPU:0 PCI:0000:0f:00.0 fell off Recommended Action=RESTART_VM;"

    assert [one.code for one in read(condition("SysLogsXIDError", "True", message=said)).failures] == ["xid_79"]
    assert read(condition("GpuMemWatch", "True", message=said)).failures == ()


def test_a_fault_is_one_fault_however_far_its_heartbeat_moves() -> None:
    bad = condition("XidCriticalError", "True", reason={"79": True})
    later = {**bad, "lastHeartbeatTime": "2026-11-29T13:00:00Z"}
    again = {**later, "lastTransitionTime": "2026-11-29T12:59:00Z"}

    first, second, third = (read(one).failures[0] for one in (bad, later, again))

    assert first == second
    assert third.failure_id != first.failure_id
    assert read(bad).checks == read(later).checks


def test_two_nodes_with_the_same_fault_at_the_same_time_have_two_failures() -> None:
    bad = condition("XidCriticalError", "True", reason={"79": True})
    ids = {parse(json.dumps(node(bad, uid=uid)).encode()).failures[0].failure_id for uid in ("u-1", "u-2")}

    assert len(ids) == 2


@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        ("AcceleratedHardwareReady", "DCGMError"),
        ("GpuDcgmConnectivityFailure", ""),
        ("GpuDcgmUnresponsive", "DCGM_PROBE_HANG"),
    ],
)
def test_a_monitor_that_cannot_look_condemns_nothing(type_: str, reason: str) -> None:
    bad = KNOWN[type_].bad

    assert status_of(condition(type_, bad, reason=reason)) is CheckStatus.UNKNOWN


def test_a_good_status_is_unknown_until_it_has_lasted() -> None:
    fresh = condition("KernelDeadlock", "False", lastTransitionTime="2026-11-29T11:59:57Z")
    ready = condition("Ready", lastHeartbeatTime="2026-11-29T12:05:00Z")

    assert status_of(fresh) is CheckStatus.UNKNOWN
    assert "too short" in str(read(fresh).checks[0].message)
    assert status_of(fresh, ready) is CheckStatus.PASS


def test_a_bad_status_counts_at_once_but_for_a_detector_that_begins_with_it() -> None:
    fresh = {"lastTransitionTime": NOW}

    assert status_of(condition("AcceleratedHardwareReady", "False", **fresh)) is CheckStatus.FAIL
    assert status_of(condition("GPUHealthy", "False", **fresh)) is CheckStatus.UNKNOWN
    assert status_of(condition("GPUHealthy", "True", **fresh)) is CheckStatus.UNKNOWN
    assert status_of(condition("GPUHealthy", "False")) is CheckStatus.FAIL
    assert status_of(condition("GPUHealthy", "True")) is CheckStatus.PASS


def test_without_times_a_status_is_taken_as_it_is() -> None:
    bare = condition("KernelDeadlock", "False", lastTransitionTime=None, lastHeartbeatTime=None)

    assert status_of(bare) is CheckStatus.PASS
    assert status_of({**bare, "lastTransitionTime": "yesterday", "lastHeartbeatTime": 5}) is CheckStatus.PASS


def test_a_list_with_one_node_is_that_node() -> None:
    one = node(condition("KernelDeadlock", "True"))
    data = json.dumps({"kind": "List", "items": [one]}).encode()

    assert parse(data) == parse(json.dumps(one).encode())


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "List", "items": []},
        {"kind": "NodeList", "items": [node(), node()]},
        {"kind": "List", "items": "none"},
        {"kind": "Pod", "status": {"conditions": []}},
        {"kind": "Node"},
        {"kind": "Node", "status": {"conditions": {}}},
        node("Ready"),
        node({"status": "True"}),
        node(*[condition("Ready")] * 300),
        [],
        None,
    ],
)
def test_what_is_no_node_is_refused(document: object) -> None:
    with pytest.raises(PartUnreadable):
        parse(json.dumps(document).encode())


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"kind: Node", b"{", b"[" * 100_000, b"1" * 10_000])
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(PartUnreadable):
        parse(data)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from([*KNOWN, "Ready"]) | JUNK,
                "status": JUNK,
                "reason": JUNK | st.from_regex(r"[{\[]?\"?[Xx]id ?0*[1-9][0-9]*.*", fullmatch=True),
                "message": JUNK,
                "lastTransitionTime": st.sampled_from([CHANGED, NOW]) | JUNK,
                "lastHeartbeatTime": st.just(NOW) | JUNK,
            },
        )
        | JUNK,
        max_size=5,
    )
)
def test_junk_is_read_or_refused(conditions: list[object]) -> None:
    try:
        found = read(*conditions)
    except PartUnreadable:
        return
    assert all((one.message or "").isprintable() for one in found.checks)
    assert all(one.code.removeprefix("xid_").isdigit() for one in found.failures)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with pytest.raises(PartUnreadable):
        parse(data)


def test_the_cluster_is_asked_for_this_node_alone() -> None:
    asked: list[tuple[str, ...]] = []

    def run(command: Any) -> bytes:
        asked.append(tuple(command))
        return json.dumps(node(condition("KernelDeadlock", "False"))).encode()

    found = collect(run, "node-a")

    assert asked == [("kubectl", "get", "node", "node-a", "--output", "json")]
    assert [one.status for one in found.checks] == [CheckStatus.PASS]
    assert node_conditions.START_WINDOW_SECONDS == 60


@pytest.mark.parametrize(
    ("name", "instance", "is_other"),
    [
        ("node-a", None, False),
        ("NODE-A.rack3.example", None, False),
        ("node-b", None, True),
        ("ip-10-0-0-7.ec2.internal", "aws:///us-east-1a/i-0abc", False),
        ("node-a", "aws:///us-east-1a/i-0def", True),
    ],
)
def test_an_object_of_another_machine_is_told(name: str, instance: str | None, is_other: bool) -> None:
    made = {**node(condition("KernelDeadlock", "False"), name=name), "spec": {"providerID": instance}}

    found = parse(json.dumps(made).encode(), node_name="node-a", provider_id="i-0abc")

    assert [one.code for one in found.warnings] == (["other_node"] if is_other else [])
    assert len(found.checks) == 1
