# SPDX-License-Identifier: Apache-2.0
"""Is the least that fits a failure tried first, the next step when it did not help, and nothing given away unproven?"""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.condition_shown import Condition, ConditionStatus
from registry.domain.decision import DeviceRef
from registry.domain.failures import CATALOGUE, Cause
from registry.domain.policy import Policy
from registry.domain.repair import (
    ASKED_BY_DRIVER,
    Action,
    Done,
    Fault,
    Proposal,
    RecoveryAction,
    fault_of,
    first_step,
    propose,
    steps_for,
    window_of,
)
from tests.clock import NOON

POLICY = Policy()
LADDER = list(Action)
HOUR = timedelta(hours=1)


def on_gpu(code: str | None = None, *, condition: str = "gpu.xid", **more: object) -> Fault:
    return Fault(condition, code, "gpu", **more)  # type: ignore[arg-type]


def step(fault: Fault, *past: Done, now: datetime = NOON, policy: Policy = POLICY) -> str | None:
    action = propose(fault, past, policy=policy, now=now).action
    return action and str(action)


def done(action: Action, hours_ago: float, *, condition: str = "gpu.xid") -> Done:
    return Done(action, condition, NOON - hours_ago * HOUR)


# --- where it begins --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("xid_13", "kill_job"),
        ("xid_31", "kill_job"),
        ("xid_43", "kill_job"),
        ("xid_94", "kill_job"),
        ("xid_32", "move_job"),
        ("xid_48", "reset_gpu"),
        ("xid_63", "reset_gpu"),
        ("xid_95", "reset_gpu"),
        ("xid_119", "reset_gpu"),
        ("xid_74", "reset_gpu"),
        ("xid_38", "reboot_node"),
        ("xid_64", "reset_gpu"),  # to be returned, but no test has said so
        ("xid_79", "reboot_node"),  # to be replaced, but no test has said so
        ("xid_143", "reset_gpu"),
        ("dcgm_pending_row_remap", "reset_gpu"),
        ("dcgm_gpu_recovery_reset", "reset_gpu"),
        ("dcgm_fallen_off_bus", "reboot_node"),
        ("dcgm_faulty_memory", "reset_gpu"),
        ("gpu.row_remap.failed", "reset_gpu"),
        ("gpu.diag_failed", "move_job"),
        ("gpu.missing", "reboot_node"),
        ("fabric.manager_down", "reboot_node"),
    ],
)
def test_a_code_begins_with_the_least_that_fits_it(code: str, expected: str) -> None:
    assert step(on_gpu(code)) == expected


@pytest.mark.parametrize(
    ("condition", "kind", "expected"),
    [
        ("gpu.ecc", "gpu", "reset_gpu"),
        ("gpu.count", None, "reboot_node"),
        ("gpu.responding", "gpu", "reboot_node"),
        ("gpu.thermal", "gpu", "move_job"),
        ("gpu.nvlink.flapping", "gpu", "reset_gpu"),
        ("efa.link", "efa", "reboot_node"),
        ("condition.kernel_deadlock", None, "reboot_node"),
        ("condition.accelerated_hardware_ready", None, "reboot_node"),
        ("lab.burnin", None, "move_job"),
        ("gpu.ecc", None, "reboot_node"),  # which GPU to reset is not known
    ],
)
def test_a_check_without_a_code_begins_with_what_such_a_check_wants(
    condition: str, kind: str | None, expected: str
) -> None:
    assert step(Fault(condition, None, kind)) == expected


@pytest.mark.parametrize(
    ("recovery", "code", "expected"),
    [
        ("none", "xid_13", "kill_job"),
        ("gpu_reset", "xid_13", "reset_gpu"),
        ("gpu_reset", "xid_94", "reset_gpu"),
        ("node_reboot", "xid_48", "reboot_node"),
        ("drain_p2p", "xid_94", "move_job"),
        ("drain_and_reset", None, "reset_gpu"),
        ("gpu_reset", "xid_38", "reboot_node"),
    ],
)
def test_the_drivers_own_word_is_the_least_that_is_done(recovery: str, code: str | None, expected: str) -> None:
    assert step(on_gpu(code, recovery=RecoveryAction(recovery))) == expected


def test_the_driver_may_ask_for_nothing_that_is_not_on_the_ladder() -> None:
    assert set(ASKED_BY_DRIVER) == set(RecoveryAction)


@pytest.mark.parametrize(
    ("code", "expected"),
    [("xid_79", "replace_node"), ("xid_64", "return_device"), ("xid_48", "replace_node"), (None, "replace_node")],
)
def test_hardware_that_failed_a_trusted_test_is_given_away_at_once(code: str | None, expected: str) -> None:
    assert step(on_gpu(code, is_proven=True)) == expected


# --- and what comes next ----------------------------------------------------------------------------------------------


def test_what_returns_within_the_window_of_an_action_is_met_with_the_next_one() -> None:
    fault = on_gpu("xid_48")
    past: list[Done] = []
    taken = []
    for number in range(5):
        now = NOON + number * 2 * HOUR
        proposal = propose(fault, past, policy=POLICY, now=now)
        taken.append(proposal.action and str(proposal.action))
        if proposal.action:
            past.append(Done(proposal.action, fault.condition, now))

    assert taken == ["reset_gpu", "reboot_node", "replace_node", "return_device", None]


@pytest.mark.parametrize(("hours", "expected"), [(23, "reboot_node"), (24, "reset_gpu"), (700, "reset_gpu")])
def test_after_the_window_a_fault_is_a_new_one(hours: float, expected: str) -> None:
    assert step(on_gpu("xid_48"), done(Action.RESET_GPU, hours)) == expected


def test_an_action_has_time_to_show() -> None:
    proposal = propose(on_gpu("xid_48"), [done(Action.RESET_GPU, 0.1)], policy=POLICY, now=NOON)

    assert (proposal.action, proposal.not_before) == (None, NOON + timedelta(minutes=9))


def test_what_was_done_for_another_condition_does_not_count() -> None:
    assert step(on_gpu("xid_48"), done(Action.REBOOT_NODE, 1, condition="gpu.ecc")) == "reset_gpu"


def test_a_milder_action_than_the_one_wanted_does_not_hold_it_up() -> None:
    assert step(on_gpu("xid_38"), done(Action.KILL_JOB, 0.5)) == "reboot_node"


def test_no_fault_of_a_program_touches_hardware() -> None:
    past = [done(Action.KILL_JOB, 0.9), done(Action.MOVE_JOB, 0.5)]

    assert step(on_gpu("xid_31"), past[0]) == "move_job"
    proposal = propose(on_gpu("xid_31"), past, policy=POLICY, now=NOON)
    assert proposal.action is None
    assert "a person has to look" in proposal.because


def test_an_adapter_without_a_serial_is_neither_reset_nor_returned() -> None:
    fault = Fault("efa.link", "efa.link_down", "efa")
    past = [done(one, 1, condition="efa.link") for one in (Action.REBOOT_NODE, Action.REPLACE_NODE)]

    assert step(fault, past[0]) == "replace_node"
    assert step(fault, *past) is None


# --- which conditions are faults --------------------------------------------------------------------------------------


def condition(status: ConditionStatus, reason: str = "xid_48", name: str = "gpu.xid") -> Condition:
    return Condition(name, status, NOON, reason, "", DeviceRef("u1", "gpu", "165"))


@pytest.mark.parametrize("status", [one for one in ConditionStatus if one is not ConditionStatus.FAILURE])
def test_only_a_failure_is_repaired(status: ConditionStatus) -> None:
    assert fault_of(condition(status), policy=POLICY) is None


def test_a_failure_is_read_by_its_code_where_it_has_one() -> None:
    assert fault_of(condition(ConditionStatus.FAILURE), policy=POLICY) == Fault("gpu.xid", "xid_48", "gpu")
    plain = fault_of(condition(ConditionStatus.FAILURE, "check_failing"), policy=POLICY)
    assert plain == Fault("gpu.xid", None, "gpu")


@pytest.mark.parametrize(("trusted", "proven"), [(("dcgm.diag",), True), ((), False)])
def test_a_test_is_a_proof_when_the_policy_trusts_it(trusted: tuple[str, ...], proven: bool) -> None:
    policy = Policy(repair_trusted_checks=trusted)

    fault = fault_of(condition(ConditionStatus.FAILURE, "gpu.diag_failed", "dcgm.diag"), policy=policy)

    assert fault is not None
    assert fault.is_proven is proven
    assert step(fault, policy=policy) == ("replace_node" if proven else "move_job")


# --- laws -------------------------------------------------------------------------------------------------------------

faults = st.builds(
    Fault,
    st.sampled_from(["gpu.xid", "gpu.ecc", "efa.link", "condition.kernel_deadlock", "lab.burnin", "efa.link.flapping"]),
    st.none() | st.sampled_from(sorted(CATALOGUE)),
    st.sampled_from([None, "gpu", "efa"]),
    st.sampled_from(list(RecoveryAction)),
    st.booleans(),
)
pasts = st.lists(
    st.builds(
        Done,
        st.sampled_from(LADDER),
        st.sampled_from(["gpu.xid", "efa.link", "lab.burnin"]),
        st.floats(0, 800).map(lambda hours: NOON - hours * HOUR),
    ),
    max_size=6,
)


@given(faults, pasts)
def test_nothing_is_given_away_unproven_before_a_boot_was_tried(fault: Fault, past: list[Done]) -> None:
    action = propose(fault, past, policy=POLICY, now=NOON).action

    if action is not None and action.opens_quarantine and not fault.is_proven:
        tried = [
            one for one in past if one.condition == fault.condition and one.at + window_of(one.action, POLICY) > NOON
        ]
        assert any(one.action.rank >= Action.REBOOT_NODE.rank for one in tried)


@given(faults, pasts)
def test_every_proposal_is_a_step_that_fits_and_says_why(fault: Fault, past: list[Done]) -> None:
    proposal = propose(fault, past, policy=POLICY, now=NOON)

    assert proposal.because
    if proposal.action is not None:
        assert proposal.action in steps_for(fault, POLICY)
        least, _ = first_step(fault, POLICY)
        assert proposal.action.rank >= least.rank


@given(faults, pasts, st.randoms())
def test_the_order_in_which_the_past_is_told_is_of_no_account(fault: Fault, past: list[Done], random: object) -> None:
    mixed = sorted(past, key=lambda _: random.random())  # type: ignore[attr-defined]

    def told(found: Proposal) -> tuple[Action | None, datetime | None]:
        return found.action, found.not_before

    assert told(propose(fault, mixed, policy=POLICY, now=NOON)) == told(propose(fault, past, policy=POLICY, now=NOON))


@given(faults, pasts)
def test_more_of_the_past_never_asks_for_less(fault: Fault, past: list[Done]) -> None:
    old = [one for one in past if one.at <= NOON - HOUR]
    before, after = (propose(fault, told, policy=POLICY, now=NOON).action for told in (old[1:], old))

    assert before is None or after is None or after.rank >= before.rank


@given(faults)
def test_the_programs_own_faults_never_go_beyond_moving_the_work(fault: Fault) -> None:
    kind = POLICY.look_up(fault.code) if fault.code else None
    first, _ = first_step(fault, POLICY)

    is_vouched = fault.is_proven or fault.recovery is not RecoveryAction.NONE
    if kind is not None and kind.cause is Cause.USER and not is_vouched:
        assert first.rank <= Action.MOVE_JOB.rank
