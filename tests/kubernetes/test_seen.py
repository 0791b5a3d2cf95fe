# SPDX-License-Identifier: Apache-2.0
"""Is a Node read as it is, and whatever else an API server may send refused without harm?"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.controller.seen import NodeSeen, read_node
from registry.domain.node_naming import Naming
from registry.domain.taints import CONDITION, MANAGED_LABEL
from tests.kubernetes.nodes import BORN, FOREIGN, node_object
from tests.kubernetes.objects import Document

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
PLACES = (
    *("metadata", "spec", "status", "metadata.name", "metadata.uid", "metadata.resourceVersion", "metadata.labels"),
    *("spec.taints", "spec.providerID", "status.conditions", "status.nodeInfo", "status.nodeInfo.bootID"),
)


def kept(**changes: Any) -> Document:
    node = node_object("node-a", BORN, FOREIGN)
    node["metadata"] |= {"uid": "u-1", "resourceVersion": "7"}
    return {**node, **changes}


def seen(**changes: Any) -> NodeSeen:
    return read_node(kept(**changes), Naming())


def test_a_node_is_read_with_everybodys_taints_and_our_condition() -> None:
    ours = {"type": CONDITION, "status": "False"}

    node = seen(status={"conditions": [{"type": "Ready"}, "odd", ours], "nodeInfo": {"bootID": "b-1"}})

    assert (node.name, node.uid, node.version, node.asked_as, node.boot_id) == ("node-a", "u-1", "7", "node-a", "b-1")
    assert (node.taints, node.condition, node.is_managed, node.is_closed) == ((BORN, FOREIGN), ours, True, True)


@pytest.mark.parametrize("labels", [{}, {MANAGED_LABEL: "false"}, {MANAGED_LABEL: "True"}], ids=str)
def test_only_the_label_to_the_letter_makes_a_node_ours(labels: dict[str, str]) -> None:
    assert not seen(metadata={**kept()["metadata"], "labels": labels}).is_managed


def test_what_a_kubelet_writes_now_and_then_is_no_news_and_what_we_act_upon_is() -> None:
    node = seen()

    assert not replace(node, version="8").is_news_to(node)
    for changed in (
        replace(node, uid="u-2"),
        replace(node, asked_as="other"),
        replace(node, boot_id="b-2"),
        replace(node, taints=()),
        replace(node, condition={"status": "True"}),
    ):
        assert changed.is_news_to(node)


@given(st.sampled_from(PLACES), JSON, st.sampled_from(["name", "providerID", "label:x"]))
def test_whatever_stands_in_a_node_it_is_read_or_refused_with_a_sentence(place: str, odd: Any, way: str) -> None:
    node = kept()
    *path, last = place.split(".")
    holder: Any = node
    for part in path:
        holder = holder[part]
    holder[last] = odd

    with suppress(ValueError):
        assert read_node(node, Naming(way)).name
