# SPDX-License-Identifier: Apache-2.0
"""Does the condition say what was decided, and are its times those that tolerances may be counted from?"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.admitted_condition import (
    MESSAGE_MAX,
    ConditionStatus,
    Told,
    camel_case,
    condition_after,
    tell,
)
from registry.domain.decision import Disposition, ReasonCode
from registry.domain.tainting import Answer, Keep
from tests.clock import NOON

HELD = Answer(Disposition.HOLD, (("device_quarantined", "GPU 1 is on hold."), ("report_stale", "It is silent.")))
SAID = Told(ConditionStatus.FALSE, "DeviceQuarantined", "GPU 1 is on hold.")
# Kubernetes' own rule for reasons of conditions: metav1.Condition.
REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")

TOLD = st.builds(Told, st.sampled_from(list(ConditionStatus)), st.sampled_from(["A", "B"]), st.sampled_from(["x", "y"]))


def written(told: Told = SAID, seconds: float = 0) -> dict[str, str]:
    condition = condition_after(None, told, NOON + timedelta(seconds=seconds))
    assert condition is not None
    return condition


def test_a_held_node_says_the_first_code_and_every_reason() -> None:
    assert tell(HELD) == Told(
        ConditionStatus.FALSE, "DeviceQuarantined", "device_quarantined: GPU 1 is on hold.; report_stale: It is silent."
    )


def test_an_admitted_node_is_true_and_one_without_a_decision_unknown() -> None:
    assert tell(Answer(Disposition.ADMIT)).status == "True"
    assert tell(None, Keep.NO_DECISION, "Nobody answers.") == Told(
        ConditionStatus.UNKNOWN, "NoDecision", "Nobody answers."
    )
    assert tell(HELD, Keep.MASS_SILENCE).status == "Unknown"


def test_a_hold_without_reasons_has_a_reason_all_the_same() -> None:
    assert tell(Answer(Disposition.HOLD)).reason == "Hold"
    assert tell(Answer(Disposition.HOLD, (("…", "odd"),))).reason == "Hold"


@pytest.mark.parametrize("code", [*ReasonCode, "xid_79", "a-b", "ümlaut_x"])
def test_every_reason_is_one_that_kubernetes_takes(code: str) -> None:
    assert REASON.fullmatch(camel_case(code))


def test_a_long_message_is_cut() -> None:
    told = tell(Answer(Disposition.HOLD, (("report_stale", "x" * 9_000),)))

    assert len(told.message) == MESSAGE_MAX
    assert told.message.endswith("…")


def test_the_time_of_transition_moves_with_the_status_alone() -> None:
    first = written()

    other = condition_after(
        first, Told(ConditionStatus.FALSE, "ReportStale", "It is silent."), NOON + timedelta(hours=1)
    )
    turned = condition_after(first, Told(ConditionStatus.UNKNOWN, "NoDecision", ""), NOON + timedelta(hours=1))

    assert other is not None
    assert (other["lastTransitionTime"], other["lastHeartbeatTime"]) == ("2026-11-29T12:00:00Z", "2026-11-29T13:00:00Z")
    assert turned is not None
    assert turned["lastTransitionTime"] == "2026-11-29T13:00:00Z"


@pytest.mark.parametrize(
    ("message", "seconds", "is_written"),
    [
        (SAID.message, 299, False),
        (SAID.message, 300, True),
        ("It is 5 s older.", 59, False),
        ("It is older.", 60, True),
    ],
)
def test_what_is_said_already_is_said_again_only_now_and_then(message: str, seconds: float, is_written: bool) -> None:
    told = Told(SAID.status, SAID.reason, message)

    assert (condition_after(written(), told, NOON + timedelta(seconds=seconds)) is not None) == is_written


@pytest.mark.parametrize("changes", [{"lastHeartbeatTime": "never"}, {"lastHeartbeatTime": None}], ids=str)
def test_a_condition_without_times_is_written_anew(changes: dict[str, Any]) -> None:
    assert condition_after({**written(), **changes}, SAID, NOON) == written()
    assert condition_after({**written(), "lastTransitionTime": None, "reason": "?"}, SAID, NOON) == written()


@given(TOLD, TOLD)
def test_the_same_word_twice_is_written_once(before: Told, told: Told) -> None:
    """No flapping: whatever stood there, after one write there is nothing to write."""
    later = NOON + timedelta(minutes=10)
    once = condition_after(written(before), told, later)

    assert once is not None
    assert condition_after(once, told, later + timedelta(seconds=1)) is None
