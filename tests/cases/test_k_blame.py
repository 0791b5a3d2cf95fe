# SPDX-License-Identifier: Apache-2.0
"""Group K: who is to blame when communication fails? Cases C95 and C96 over HTTP, and their neighbours."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from flask import Flask
from werkzeug.test import TestResponse

from api.background import Background
from api.context import standing
from registry.domain.times import rfc3339
from tests.cases.conftest import World, card, codes, taken

NODES = tuple(f"node-{letter}" for letter in "abcdefgh")


def made(response: TestResponse) -> dict[str, Any]:
    """Return the body of a 201."""
    assert response.status_code == 201, response.text
    return dict(response.json or {})


def stand(world: World) -> None:
    """Eight nodes with eight GPUs each, all of which may take work."""
    world.expect(8)
    for _ in range(2):
        for place, node in enumerate(NODES):
            world.report(node, [card(8 * place + number) for number in range(8)])
        world.clock.advance(31)


def judge(world: World, signals: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """Tell that a job on all eight nodes failed now."""
    now = world.clock.now
    body = {"job_id": "j-1", "nodes": list(NODES), "started_at": rfc3339(now - timedelta(hours=6))}
    return made(
        world.operator.post("/v1/job-failures", json={**body, "failed_at": rfc3339(now), "signals": signals, **changes})
    )


def timeouts(world: World) -> list[dict[str, Any]]:
    """One collective times out on 64 ranks within milliseconds."""
    text = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4411, OpType=ALLREDUCE)"
    moments = (world.clock.now - timedelta(milliseconds=rank) for rank in range(64))
    return [
        {"kind": "nccl_timeout", "at": rfc3339(at), "rank": rank, "node": NODES[rank // 8], "detail": text}
        for rank, at in enumerate(moments)
    ]


def untouched(world: World, *nodes: str) -> None:
    """Nobody of these is on hold, held in any fault, or has anything of the job in its history."""
    assert taken(world.operator.get("/v1/quarantines"))["items"] == []
    for node in nodes:
        history = taken(world.operator.get(f"/v1/nodes/{node}/history?limit=1000"))["items"]
        assert not [one for one in history if one["type"].startswith(("failure.", "job_failure.", "quarantine."))]
        assert codes(taken(world.operator.get(f"/v1/nodes/{node}/admission"))) == []


def test_c95_sixty_four_timeouts_are_one_incident_with_eight_witnesses_and_no_culprit(world: World) -> None:
    stand(world)
    found = judge(world, timeouts(world))

    assert (found["attribution"], found["cause"]) == ("undecided", None)
    assert (found["retry"], found["exclude"]) == ("ask", {"nodes": [], "devices": []})
    (witnesses,) = [one for one in found["evidence"] if "times: 64, on nodes: 8" in one["what"]]
    assert (witnesses["for"], witnesses["weight"]) == (None, 0)
    assert len(taken(world.operator.get("/v1/job-failures"))["items"]) == 1
    untouched(world, *NODES)


def test_c95_beside_an_xid_79_on_one_rank_it_is_that_devices(world: World) -> None:
    stand(world)
    serial = card(19)["serial"]
    fault = {"failure_id": "f-1", "device": serial, "code": "xid_79", "occurred_at": rfc3339(world.clock.now)}
    device = made(world.operator.post("/v1/failures", json=fault))["items"][0]["failure"]["device"]
    found = judge(world, timeouts(world))

    assert (found["cause"], found["exclude"]) == ("hardware", {"nodes": [], "devices": [device]})
    for node in NODES:
        assert bool(codes(taken(world.operator.get(f"/v1/nodes/{node}/admission")))) is (node == "node-c")


def test_c95_after_data_loading_stalled_it_is_the_applications_and_no_hardware_is_touched(world: World) -> None:
    stand(world)
    at = rfc3339(world.clock.now - timedelta(seconds=640))
    found = judge(world, [{"kind": "data_loading_stalled", "at": at, "rank": 13, "node": "node-b"}, *timeouts(world)])

    assert (found["attribution"], found["cause"], found["retry"]) == ("application", "user", "do_not_retry")
    assert found["exclude"] == {"nodes": [], "devices": []}
    untouched(world, *NODES)


def test_c96_what_seven_nodes_say_of_an_eighth_is_a_suspicion_at_the_eighth(world: World) -> None:
    stand(world)
    at = rfc3339(world.clock.now - timedelta(seconds=60))
    found = judge(
        world,
        [
            {"kind": "efa_unresponsive_remote", "at": at, "node": node, "detail": "rising, all toward node-h"}
            for node in NODES[:7]
        ],
    )

    assert (found["attribution"], found["cause"]) == ("undecided", None)
    assert (found["retry"], found["exclude"]) == ("exclude_nodes", {"nodes": ["node-h"], "devices": []})
    (pointed,) = [one for one in found["evidence"] if one.get("node") == "node-h"]
    assert "7 others point at node-h" in pointed["what"]
    untouched(world, *NODES[:7])
    history = taken(world.operator.get("/v1/nodes/node-h/history?limit=1000"))["items"]
    assert [one["type"] for one in history if "job" in one["type"]] == ["job_failure.judged"]
    assert codes(taken(world.operator.get("/v1/nodes/node-h/admission"))) == []


def test_c96_counters_that_rise_on_the_reporters_fault_none_of_them(world: World) -> None:
    stand(world)
    at = rfc3339(world.clock.now)
    faults = [
        {"failure_id": f"f-{place}", "node": node, "code": "efa.errors", "occurred_at": at}
        for place, node in enumerate(NODES[:7])
    ]
    made(world.operator.post("/v1/failures", json={"failures": faults}))
    signals = [
        {"kind": "efa_unresponsive_remote", "at": at, "node": node, "detail": "toward node-h"} for node in NODES[:7]
    ]

    assert judge(world, signals)["exclude"] == {"nodes": ["node-h"], "devices": []}


def test_c96_when_the_process_at_the_far_end_had_raised_it_is_the_programs(world: World) -> None:
    stand(world)
    at = rfc3339(world.clock.now - timedelta(seconds=60))
    raised = {"kind": "exception", "at": rfc3339(world.clock.now - timedelta(seconds=70)), "node": "node-h"}
    pointing = [{"kind": "nccl_error", "at": at, "node": node, "detail": "remote node-h"} for node in NODES[:7]]
    found = judge(world, [{**raised, "detail": "IndexError: list index out of range"}, *pointing])

    assert (found["cause"], found["exclude"]) == ("user", {"nodes": [], "devices": []})


def test_c95_a_fault_that_comes_to_light_later_revises_what_three_hundred_ranks_could_not_tell(
    world: World, app: Flask
) -> None:
    stand(world)
    at = rfc3339(world.clock.now - timedelta(seconds=20))
    told = [{"kind": "nccl_timeout", "at": at, "rank": rank, "node": NODES[rank % 8]} for rank in range(300)]
    first = judge(world, told)
    world.clock.advance(60)
    fault = {"failure_id": "f-1", "device": card(19)["serial"], "code": "xid_79", "occurred_at": at}
    made(world.operator.post("/v1/failures", json=fault))
    Background(standing(app)).beat()

    found = taken(world.operator.get(f"/v1/job-failures/{first['id']}"))
    assert [one["attribution"] for one in found["history"]] == ["undecided", "platform"]
