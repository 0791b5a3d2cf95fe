# SPDX-License-Identifier: Apache-2.0
"""Groups L and N before the Kubernetes webhook: what comes and goes opens no node that reports do not admit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from registry.domain.roles import Role
from tests.api.conftest import Asker
from tests.cases.conftest import GAP_SECONDS, World, card, one_engine, taken
from tests.cases.test_l_nodes import FIRST, SECOND, live

OURS = {"key": "pratique.dev/unadmitted", "effect": "NoSchedule"}

pytestmark = one_engine


@pytest.fixture
def opens(asker: Callable[..., Asker]) -> Callable[..., bool]:
    """Ask whether the taint may be taken from a node's Kubernetes object."""
    webhook = asker(Role.WEBHOOK)

    def ask(name: str = "node-a", **spec: Any) -> bool:
        metadata = {"name": name, "labels": {"pratique.dev/managed": "true"}}
        request = {
            "uid": "1",
            "resource": {"group": "", "version": "v1", "resource": "nodes"},
            "operation": "UPDATE",
            "name": name,
            "oldObject": {"metadata": metadata, "spec": {"taints": [OURS], **spec}},
            "object": {"metadata": metadata, "spec": {}},
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        allowed: bool = taken(webhook.post("/k8s/nodes/validate", json=review))["response"]["allowed"]
        return allowed

    return ask


def test_a_new_machine_under_an_old_name_is_opened_by_its_own_passes(world: World, opens: Callable[..., bool]) -> None:
    """C97, C105: the hold on the device that left does not stay with the name, and neither do the passes."""
    world.expect(4)
    live(world, "node-a", "i-01", FIRST)
    assert opens()
    world.hold({"device": card(2)["serial"]})
    assert not opens()
    live(world, "node-a", "i-02", SECOND, 1)
    assert not opens()
    live(world, "node-a", "i-02", SECOND, 1)
    assert opens()


def test_an_uncordon_from_outside_opens_nothing(world: World, opens: Callable[..., bool]) -> None:
    """C100: again and again."""
    world.expect(4)
    live(world, "node-a", "i-01", FIRST)
    world.hold({"device": card(2)["serial"]})
    assert [opens(unschedulable=True) for _ in range(3)] == [False] * 3


def test_a_waiver_opens_a_short_node_until_it_ends(world: World, opens: Callable[..., bool]) -> None:
    """C107."""
    world.expect(4)
    live(world, "node-a", "i-01", FIRST)
    live(world, "node-a", "i-01", FIRST[:3])
    assert not opens()
    until = world.clock.now + timedelta(seconds=3 * GAP_SECONDS)
    body = {"kind": "gpu", "count": 3, "until": until.isoformat(), "reason": "the spare comes on Friday"}
    assert world.operator.post("/v1/nodes/node-a/waivers", json=body).status_code in {200, 201}
    live(world, "node-a", "i-01", FIRST[:3])
    assert opens()
    live(world, "node-a", "i-01", FIRST[:3])
    assert not opens()


def test_a_detector_that_has_only_just_begun_opens_nothing(world: World, opens: Callable[..., bool]) -> None:
    """C113: unknown is no pass, and without a pass the taint stays."""
    world.expect(4, "gpu.xid")
    for status in ("unknown", "unknown", "pass"):
        world.clock.advance(GAP_SECONDS)
        world.report("node-a", FIRST, checks=[{"name": "gpu.xid", "status": status}])
        assert not opens()
    world.clock.advance(GAP_SECONDS)
    world.report("node-a", FIRST, checks=[{"name": "gpu.xid", "status": "pass"}])
    assert opens()
