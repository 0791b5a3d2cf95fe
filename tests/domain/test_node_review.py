# SPDX-License-Identifier: Apache-2.0
"""Which change of a Node opens what is kept closed, and is only that refused?"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.decision import Decision, Disposition, Reason, ReasonCode
from registry.domain.node_review import LET_BE, NodeChange, answer_change, answer_without_decision
from registry.domain.taints import MANAGED_LABEL, TAINT_KEY, Opening, closing_patch, find_openings, read_marks

OURS = {"key": TAINT_KEY, "effect": "NoSchedule"}
EVICTING = {"key": TAINT_KEY, "effect": "NoExecute"}
THEIRS = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def node(*taints: dict[str, Any], managed: str | None = "true", cordoned: bool = False) -> dict[str, Any]:
    labels = {} if managed is None else {MANAGED_LABEL: managed}
    spec: dict[str, Any] = {"unschedulable": True} if cordoned else {}
    return {"metadata": {"name": "node-a", "labels": labels}, "spec": {**spec, "taints": list(taints)}}


def change(before: dict[str, Any], after: dict[str, Any]) -> NodeChange:
    return NodeChange("node-a", "node-a", read_marks(before), read_marks(after))


def decided(now: datetime, *reasons: str) -> Decision:
    found = tuple(Reason(ReasonCode.DEVICE_QUARANTINED, message) for message in reasons)
    disposition = Disposition.HOLD if found else Disposition.ADMIT
    return Decision("node-a", not found, disposition, found, have=2, need=2, policy="p", sequence=1, decided_at=now)


@pytest.mark.parametrize(
    ("before", "after", "openings"),
    [
        (node(OURS), node(), [Opening.TAINT_REMOVED]),
        (node(OURS, THEIRS), node(THEIRS), [Opening.TAINT_REMOVED]),
        (node(OURS), node({**OURS, "effect": "PreferNoSchedule"}), [Opening.TAINT_REMOVED]),
        (node(OURS), node({**OURS, "key": "pratique.dev/other"}), [Opening.TAINT_REMOVED]),
        (node(OURS, EVICTING), node(), [Opening.TAINT_REMOVED]),
        (node(OURS, EVICTING), node(OURS), []),
        (node(OURS), node(EVICTING), []),
        (node(OURS), node({**OURS, "value": "x"}), []),
        (node(OURS, THEIRS), node(OURS), []),
        (node(), node(OURS), []),
        (node(), node(), []),
        (node(OURS), node(OURS, managed=None), [Opening.LABEL_REMOVED]),
        (node(OURS), node(OURS, managed="false"), [Opening.LABEL_REMOVED]),
        (node(), node(managed=None), [Opening.LABEL_REMOVED]),
        (node(OURS), node(managed=None), [Opening.TAINT_REMOVED, Opening.LABEL_REMOVED]),
        (node(OURS, managed=None), node(managed=None), []),
        (node(OURS, managed="false"), node(managed="false"), []),
        (node(managed=None), node(), []),
        (node(OURS, cordoned=True), node(OURS), []),
    ],
)
def test_a_node_opens_when_our_taint_or_label_goes(
    before: dict[str, Any], after: dict[str, Any], openings: list[Opening]
) -> None:
    assert list(find_openings(read_marks(before), read_marks(after))) == openings


def test_a_node_that_is_admitted_may_be_opened(now: datetime) -> None:
    assert answer_change(change(node(OURS), node()), decided(now)) is LET_BE
    assert answer_change(change(node(OURS), node(managed=None)), decided(now)) is LET_BE


def test_a_refusal_names_what_stays_and_every_reason_that_can_be_read(now: datetime) -> None:
    said = answer_change(change(node(OURS), node(managed=None)), decided(now, *(f"card {n} is held" for n in range(8))))

    assert not said.is_allowed
    assert TAINT_KEY in said.message
    assert MANAGED_LABEL in said.message
    assert "card 0 is held" in said.message
    assert "card 4 is held" in said.message
    assert "card 5" not in said.message
    assert said.message.endswith("and 3 more")


def test_an_uncordon_is_let_be_and_whoever_does_it_is_told_that_it_opens_nothing(now: datetime) -> None:
    uncordon = change(node(OURS, cordoned=True), node(OURS))

    said = answer_change(uncordon, decided(now, "card 1 is held"))

    assert (said.is_allowed, said.message) == (True, "")
    assert "device_quarantined" in said.warnings[0]
    assert len(said.warnings[0]) <= 120
    assert answer_change(uncordon, decided(now)).warnings == ()
    assert answer_without_decision(uncordon, "w") is LET_BE


def test_without_records_only_an_opening_is_refused() -> None:
    refused = answer_without_decision(change(node(OURS), node()), "the records cannot be read")

    assert not refused.is_allowed
    assert "cannot be read" in refused.message
    assert answer_without_decision(change(node(), node(OURS)), "w") is LET_BE
    assert answer_without_decision(change(node(OURS, managed=None), node(managed=None)), "w") is LET_BE


@pytest.mark.parametrize(
    ("born", "patched"),
    [
        (node(THEIRS), [THEIRS, OURS]),
        (node(), [OURS]),
        (node(OURS), [OURS]),
        (node(EVICTING), [EVICTING]),
        ({"metadata": {"labels": {MANAGED_LABEL: "true"}}}, [OURS]),
        ({"metadata": {"labels": {MANAGED_LABEL: "true"}}, "spec": {}}, [OURS]),
        ({"metadata": {"labels": {MANAGED_LABEL: "true"}}, "spec": {"taints": None}}, [OURS]),
        (node(managed=None), []),
        ({"metadata": {}}, []),
        ({}, []),
    ],
)
def test_a_node_of_ours_is_closed_as_it_is_born(born: dict[str, Any], patched: list[dict[str, Any]]) -> None:
    assert applied(born, closing_patch(born)) == patched


@pytest.mark.parametrize(
    "nonsense",
    [
        {"metadata": "text"},
        {"metadata": {"labels": ["pratique.dev/managed"]}},
        {"spec": 5},
        {"spec": {"taints": {"key": TAINT_KEY}}},
        {"spec": {"taints": ["pratique.dev/unadmitted"]}},
    ],
)
def test_what_is_no_node_is_said_to_be_none(nonsense: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="node's"):
        read_marks(nonsense)


TAINTS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from([TAINT_KEY, "nvidia.com/gpu", "node.kubernetes.io/not-ready"]),
            "effect": st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
        },
        optional={"value": st.text(max_size=3)},
    ),
    max_size=4,
)


@given(taints=TAINTS, managed=st.sampled_from(["true", "false", None]))
def test_closing_keeps_all_that_is_there_and_needs_to_be_done_once(
    taints: list[dict[str, Any]], managed: str | None
) -> None:
    born = node(*taints, managed=managed)

    after = applied(born, closing_patch(born))

    assert after[: len(taints)] == taints
    assert closing_patch(node(*after, managed=managed)) == []
    assert read_marks(node(*after, managed=managed)).is_closed or managed != "true"


def applied(born: dict[str, Any], patch: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The taints after a patch that adds at most one thing."""
    taints = list(born.get("spec", {}).get("taints") or [])
    for step in patch:
        assert step["op"] == "add"
        if step["path"] == "/spec":
            assert "spec" not in born
            return list(step["value"]["taints"])
        if step["path"] == "/spec/taints":
            assert born["spec"].get("taints") is None
            return list(step["value"])
        assert step["path"] == "/spec/taints/-"
        taints.append(step["value"])
    return taints
