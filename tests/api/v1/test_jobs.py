# SPDX-License-Identifier: Apache-2.0
"""Does a job get its messages in, one by one, and can it be asked how it fared?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.conftest import Asker


def told(kind: str, at: str, **more: Any) -> dict[str, Any]:
    """A message at a time of the morning."""
    return {"event_id": f"{kind}-{at}", "kind": kind, "at": f"2026-11-29T{at}Z", **more}


STARTED = told("started", "10:00:00", nodes=["node-a", "node-b"], devices=16)
STORY = [
    STARTED,
    told("progress", "10:01:00", step=0),
    told("progress", "10:11:00", step=600, checkpoint=500),
    told("interrupted", "10:11:10", cause="hardware", nodes=["node-b"], message="Xid 79"),
    told("started", "10:12:00", nodes=["node-a", "node-c"], devices=16),
    told("progress", "10:12:30", step=500),
    told("ended", "10:20:50", outcome="completed", step=1000),
]


def tell(asker: Asker, *events: dict[str, Any], job: str = "job-1") -> Any:
    return asker.post(f"/v1/jobs/{job}/events", json={"events": list(events)})


def outcomes(response: Any) -> list[str]:
    return [item["outcome"] for item in response.json["items"]]


def test_a_job_tells_its_story_and_is_asked_what_became_of_its_time(operator: Asker, auditor: Asker) -> None:
    response = tell(operator, *STORY)
    found = auditor.get("/v1/jobs/job-1").json

    assert response.status_code == 201
    assert outcomes(response) == ["recorded"] * 7
    assert found["goodput"] == pytest.approx((500 + 500) / 1250)
    assert found["badput"] == [
        {"kind": "lost_progress", "cause": "hardware", "seconds": 110.0},
        {"kind": "start_up", "cause": "user", "seconds": 60.0},
        {"kind": "waiting_for_nodes", "cause": "hardware", "seconds": 50.0},
        {"kind": "start_up", "cause": "hardware", "seconds": 30.0},
    ]
    assert found["allocated_seconds"] == found["productive_seconds"] + 250 == 1250
    assert (found["state"], found["unit"], found["reporter"]) == ("ended", "step", "operator:alice")


def test_again_is_200_and_says_so(operator: Asker) -> None:
    tell(operator, *STORY)
    again = tell(operator, *STORY)

    assert again.status_code == 200
    assert set(outcomes(again)) == {"already_recorded"}


def test_one_that_is_refused_says_why_and_hinders_no_other(operator: Asker) -> None:
    response = tell(operator, STARTED, told("progress", "10:05:00"), told("resumed", "10:06:00", step=3))

    assert response.status_code == 201
    assert outcomes(response) == ["recorded", "refused", "refused"]
    assert response.json["items"][1]["message"] == "A message of kind progress needs step (or samples)."
    assert response.json["items"][2]["code"] == "invalid_field"


def test_when_none_is_taken_it_is_a_problem(operator: Asker) -> None:
    response = tell(operator, told("ended", "10:00:00"))

    assert response.status_code == 422
    assert response.json["code"] == "invalid_field"
    assert outcomes(response) == ["refused"]
    assert operator.get("/v1/jobs/job-1").status_code == 404


@pytest.mark.parametrize(
    ("event", "pointer"),
    [
        (told("begun", "10:00:00"), "/events/0/kind"),
        (told("progress", "10:00:00", step=-1), "/events/0/step"),
        (told("progress", "10:00:00", step=1, samples=1), "/events/0/samples"),
        (told("paused", "10:00:00", reason="lunch"), "/events/0/reason"),
        (told("interrupted", "10:00:00", cause="weather"), "/events/0/cause"),
        (told("started", "10:00:00", nodes=[], devices=8), "/events/0/nodes"),
        (told("started", "10:00:00", nodes=["a b"], devices=8), "/events/0/nodes/0"),
        (told("started", "10:00:00", nodes=["a"], devices=0), "/events/0/devices"),
        ({"kind": "resumed"}, "/events/0/event_id"),
    ],
)
def test_what_has_not_the_shape_is_refused_with_its_place(operator: Asker, event: dict[str, Any], pointer: str) -> None:
    response = tell(operator, event)

    assert response.status_code == 422
    assert pointer in [error["pointer"] for error in response.json["errors"]]


def test_a_job_may_count_samples_and_keeps_to_them(operator: Asker) -> None:
    response = tell(
        operator,
        STARTED,
        told("progress", "10:01:00", samples=4096),
        told("progress", "10:02:00", step=1),
    )

    assert outcomes(response) == ["recorded", "recorded", "refused"]
    assert operator.get("/v1/jobs/job-1").json["unit"] == "samples"


def test_jobs_are_found_by_node_and_state_page_by_page(operator: Asker) -> None:
    tell(operator, *STORY, job="done")
    tell(operator, STARTED, job="begun")
    every = operator.get("/v1/jobs").json["items"]
    first = operator.get("/v1/jobs?limit=1").json
    second = operator.get(f"/v1/jobs?limit=1&cursor={first['next']}").json

    assert [one["job_id"] for one in every] == ["begun", "done"]
    assert [*first["items"], *second["items"]] == every
    assert [one["job_id"] for one in operator.get("/v1/jobs?node=node-c").json["items"]] == ["done"]
    assert [one["job_id"] for one in operator.get("/v1/jobs?state=starting").json["items"]] == ["begun"]


def test_the_history_of_a_node_tells_which_jobs_ran_there(operator: Asker) -> None:
    tell(operator, *STORY)
    history = operator.get("/v1/events?type=job.interrupted").json["items"]

    assert [one["data"]["message"] for one in history] == ["Xid 79"]
    assert {"kind": "node", "id": "node-b", "ordinal": 2} in history[0]["subjects"]


def test_the_same_request_under_one_key_is_answered_twice_and_made_once(operator: Asker) -> None:
    headers = {"Idempotency-Key": "once"}
    first = operator.post("/v1/jobs/job-1/events", json={"events": [STARTED]}, headers=headers)
    again = operator.post("/v1/jobs/job-1/events", json={"events": [STARTED]}, headers=headers)

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json == first.json


def test_the_objectives_are_told_with_their_targets(operator: Asker, auditor: Asker) -> None:
    tell(operator, *STORY)
    found = auditor.get("/v1/slo").json
    by_name = {one["name"]: one for one in found["objectives"]}

    assert {name: one["target"] for name, one in by_name.items()} == {
        "availability": "95%",
        "interruptions": "6.5",
        "goodput": "90%",
    }
    assert by_name["availability"]["is_met"] is None
    assert by_name["goodput"]["actual"] == pytest.approx(1000 / 1250)
    assert by_name["goodput"]["is_met"] is False
    assert by_name["interruptions"]["by_cause"]["hardware"] > 0
    assert len(by_name["goodput"]["burn_rates"]) == 3
    assert found["policy"] == auditor.get("/v1/policy").json["digest"]
    assert auditor.get("/v1/policy").json["slo"][0] == {
        "name": "availability",
        "target": "95%",
        "window_seconds": 2_592_000,
    }
