# SPDX-License-Identifier: Apache-2.0
"""Does a node bear the taints it should by what was decided, and does nobody else's taint ever change?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.decision import Disposition
from registry.domain.tainting import Answer, Keep, fell_silent_lately, is_mass_silence, taints_after
from registry.domain.taints import TAINT_KEY, read_marks
from tests.clock import NOON

ADMIT, HOLD, DRAIN = (Answer(one) for one in (Disposition.ADMIT, Disposition.HOLD, Disposition.DRAIN))

KEYS = st.sampled_from([TAINT_KEY, "node.kubernetes.io/unschedulable", "pratique.dev/other", f"{TAINT_KEY}d"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
TAINTS = st.lists(
    st.fixed_dictionaries({"key": KEYS, "effect": EFFECTS}, optional={"value": st.text(max_size=3)}),
    unique_by=lambda one: (one["key"], one["effect"]),  # as an API server has it
    max_size=6,
)
ANSWERS = st.one_of(st.none(), st.sampled_from([ADMIT, HOLD, DRAIN]))
KEEPS = st.one_of(st.none(), st.sampled_from(list(Keep)))


def taint(effect: str, **more: str) -> dict[str, str]:
    return {"key": TAINT_KEY, "effect": effect, **more}


def effects(taints: list[dict[str, Any]] | None) -> list[str] | None:
    return None if taints is None else [one["effect"] for one in taints]


@pytest.mark.parametrize(
    ("answer", "evicts", "standing", "after"),
    [
        (ADMIT, False, ["NoSchedule"], []),
        (ADMIT, False, ["NoSchedule", "NoExecute"], []),
        (ADMIT, True, ["PreferNoSchedule"], []),
        (ADMIT, False, [], None),
        (HOLD, False, [], ["NoSchedule"]),
        (HOLD, True, [], ["NoSchedule"]),
        (HOLD, False, ["NoSchedule"], None),
        (HOLD, False, ["PreferNoSchedule"], ["NoSchedule"]),
        (HOLD, True, ["NoSchedule", "NoExecute"], ["NoSchedule"]),
        (DRAIN, False, [], ["NoSchedule"]),
        (DRAIN, False, ["NoExecute"], ["NoSchedule"]),
        (DRAIN, True, ["NoSchedule"], ["NoSchedule", "NoExecute"]),
        (DRAIN, True, ["NoExecute", "NoSchedule"], None),
    ],
)
def test_our_taints_follow_the_decision(
    answer: Answer, evicts: bool, standing: list[str], after: list[str] | None
) -> None:
    assert effects(taints_after([taint(one) for one in standing], answer, evicts=evicts, now=NOON)) == after


def test_a_taint_that_stands_keeps_its_value_and_its_time() -> None:
    born = taint("NoSchedule", value="true")

    assert taints_after([born], DRAIN, evicts=True, now=NOON) == [
        born,
        taint("NoExecute", timeAdded="2026-11-29T12:00:00Z"),
    ]


@given(TAINTS, ANSWERS, st.booleans(), KEEPS)
def test_taints_of_others_never_change_nor_their_order(
    taints: list[dict[str, Any]], answer: Answer | None, evicts: bool, keep: Keep | None
) -> None:
    after = taints_after(taints, answer, evicts=evicts, keep=keep, now=NOON)

    assert after is None or [one for one in after if one["key"] != TAINT_KEY] == [
        one for one in taints if one["key"] != TAINT_KEY
    ]


@given(TAINTS, ANSWERS, st.booleans(), KEEPS)
def test_the_same_decision_a_second_time_changes_nothing(
    taints: list[dict[str, Any]], answer: Answer | None, evicts: bool, keep: Keep | None
) -> None:
    after = taints_after(taints, answer, evicts=evicts, keep=keep, now=NOON)

    later = NOON + timedelta(minutes=1)
    assert taints_after(taints if after is None else after, answer, evicts=evicts, keep=keep, now=later) is None


@given(TAINTS, st.sampled_from([ADMIT, HOLD, DRAIN]), st.booleans())
def test_a_node_is_open_only_when_it_is_admitted(taints: list[dict[str, Any]], answer: Answer, evicts: bool) -> None:
    after = taints_after(taints, answer, evicts=evicts, now=NOON)

    bears = taints if after is None else after
    assert read_marks({"spec": {"taints": bears}}).is_closed == (answer is not ADMIT)


@given(TAINTS, ANSWERS, st.booleans(), st.sampled_from(list(Keep)))
def test_a_reason_to_keep_changes_nothing_whatever_was_decided(
    taints: list[dict[str, Any]], answer: Answer | None, evicts: bool, keep: Keep
) -> None:
    assert taints_after(taints, answer, evicts=evicts, keep=keep, now=NOON) is None
    assert taints_after(taints, None, evicts=evicts, now=NOON) is None


@pytest.mark.parametrize(
    ("codes", "is_silence"),
    [
        (["report_stale"], True),
        (["report_stale", "passes_insufficient"], True),
        (["passes_insufficient"], False),
        (["report_stale", "device_quarantined"], False),
        (["report_stale", "a_code_of_a_newer_server"], False),
        ([], False),
    ],
    ids=str,
)
def test_silence_is_what_nothing_else_is_said_with(codes: list[str], is_silence: bool) -> None:
    assert Answer(Disposition.HOLD, tuple((code, "") for code in codes)).is_silence == is_silence


@pytest.mark.parametrize(
    ("managed", "fallen", "is_mass"),
    [(1, 1, False), (3, 1, False), (3, 2, True), (20, 2, False), (20, 3, True), (1000, 100, False), (1000, 101, True)],
)
def test_more_than_a_tenth_is_a_mass_and_one_alone_never_is(managed: int, fallen: int, is_mass: bool) -> None:
    assert is_mass_silence(managed, fallen) == is_mass


@pytest.mark.parametrize(
    ("changes", "is_late"),
    [
        ({}, True),
        ({"lastTransitionTime": "2026-11-29T11:58:00Z"}, True),
        ({"lastTransitionTime": "2026-11-29T11:57:59Z"}, False),
        ({"status": "Unknown"}, False),
        ({"reason": "DeviceQuarantined"}, False),
        ({"lastTransitionTime": None}, False),
        ({"lastTransitionTime": "yesterday"}, False),
    ],
    ids=str,
)
def test_a_node_fell_silent_lately_when_its_condition_says_so(changes: dict[str, Any], is_late: bool) -> None:
    condition = {"status": "False", "reason": "ReportStale", "lastTransitionTime": "2026-11-29T11:59:00Z", **changes}

    assert fell_silent_lately(condition, "ReportStale", NOON) == is_late
    assert not fell_silent_lately(None, "ReportStale", NOON)
