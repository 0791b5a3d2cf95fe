# SPDX-License-Identifier: Apache-2.0
"""Who is to blame for a failed job, asked over HTTP?"""

from __future__ import annotations

from typing import Any

import pytest

from api.schemas.document import shape_schema
from api.schemas.job_failures import JOB_FAILURE
from tests.api.conftest import Asker
from tests.api.v1.fleet import SERIALS, admit
from tests.clock import Clock

JOB = {
    "job_id": "j-1",
    "nodes": ["node-a"],
    "started_at": "2026-11-29T06:00:00Z",
    "failed_at": "2026-11-29T12:00:00Z",
}


def told(**changes: Any) -> dict[str, Any]:
    return {name: value for name, value in {**JOB, **changes}.items() if value is not None}


def test_a_failed_job_is_judged_by_what_is_on_record(operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)
    fault = {"failure_id": "f-1", "device": SERIALS[0], "code": "xid_79", "occurred_at": "2026-11-29T12:00:00Z"}
    device = operator.post("/v1/failures", json=fault).json["items"][0]["failure"]["device"]

    answer = operator.post("/v1/job-failures", json=told())

    assert answer.status_code == 201
    found = answer.json
    assert found["outcome"] == "judged"
    assert (found["attribution"], found["cause"]) == ("platform", "hardware")
    assert (found["retry"], found["exclude"]) == ("exclude_devices", {"nodes": [], "devices": [device]})
    assert found["evidence"][0]["for"] == "hardware"
    assert found["evidence"][0]["weight"] > 60


def test_the_same_again_answers_200_and_another_message_revises(operator: Asker) -> None:
    assert operator.post("/v1/job-failures", json=told()).status_code == 201
    again = operator.post("/v1/job-failures", json=told())
    more = operator.post("/v1/job-failures", json=told(log_excerpt="CUDA out of memory"))

    assert (again.status_code, again.json["outcome"], again.json["attribution"]) == (200, "already_judged", "undecided")
    assert (more.status_code, more.json["outcome"], more.json["attribution"]) == (200, "revised", "application")
    assert more.json["id"] == again.json["id"]
    shown = operator.get(f"/v1/job-failures/{more.json['id']}").json
    assert [one["revision"] for one in shown["history"]] == [1, 2]


def test_a_list_may_be_as_short_as_the_document_says(operator: Asker) -> None:
    answer = operator.post("/v1/job-failures", json=told(signals=[]))
    refused = operator.post("/v1/job-failures", json=told(nodes=[]))

    documented = shape_schema(JOB_FAILURE)["properties"]
    assert (answer.status_code, documented["signals"]["minItems"]) == (201, 0)
    assert (refused.status_code, documented["nodes"]["minItems"]) == (422, 1)


def test_an_answer_is_replayed_under_its_key(operator: Asker) -> None:
    headers = {"Idempotency-Key": "k-1"}
    first = operator.post("/v1/job-failures", json=told(), headers=headers)
    again = operator.post("/v1/job-failures", json=told(), headers=headers)

    assert (first.status_code, first.json) == (again.status_code, again.json)
    assert again.headers["Idempotent-Replayed"] == "true"


def test_a_log_with_colours_bars_and_broken_text_is_taken(operator: Asker) -> None:
    log = "\x1b[31mERROR\x1b[0m 10%\r20%\x00\x07\u202e\nKeyError: 'x'\n"
    found = operator.post("/v1/job-failures", json=told(log_excerpt=log)).json

    assert found["attribution"] == "application"
    kept = operator.get(f"/v1/job-failures/{found['id']}").json["log_excerpt"]
    assert kept.startswith("ERROR 10%\r20%")
    assert not {"\x1b", "\x00", "\x07", "\u202e"} & set(kept)


def test_of_a_long_log_the_end_is_read(operator: Asker) -> None:
    log = "KeyError: 'x'\n" + "all is well\n" * 100_000 + "CUDA out of memory\n"
    found = operator.post("/v1/job-failures", json=told(log_excerpt=log)).json

    assert [one["what"].split(" (")[0] for one in found["evidence"] if one["weight"]] == [
        "the log: the program asked for more GPU memory than there is"
    ]


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"job_id": None}, "/job_id"),
        ({"nodes": None}, "/nodes"),
        ({"nodes": []}, "/nodes"),
        ({"nodes": ["a b"]}, "/nodes/0"),
        ({"started_at": "yesterday"}, "/started_at"),
        ({"failed_at": "2026-11-29T05:00:00Z"}, "/failed_at"),
        ({"failed_at": "2026-11-30T05:00:00Z"}, "/failed_at"),
        ({"exit_code": -65}, "/exit_code"),
        ({"signal": "kill -9"}, "/signal"),
        ({"signal": 0}, "/signal"),
        ({"signal": True}, "/signal"),
        ({"log_excerpt": 7}, "/log_excerpt"),
        ({"signals": [{"kind": "x"}]}, "/signals/0/at"),
        ({"signals": [{"kind": "x", "at": "2026-11-29T12:00:00Z", "ranks": 1}]}, "/signals/0/ranks"),
        ({"owner": "ana"}, "/owner"),
    ],
)
def test_what_cannot_be_read_is_refused_and_named(operator: Asker, changes: dict[str, Any], pointer: str) -> None:
    refused = operator.post("/v1/job-failures", json=told(**changes))

    assert refused.status_code == 422
    assert [error["pointer"] for error in refused.json["errors"]] == [pointer]
    assert operator.get("/v1/job-failures").json["items"] == []


@pytest.mark.parametrize("signal", ["SIGKILL", "kill", "Sigkill", 9, "9"])
def test_a_signal_is_told_by_its_name_or_its_number(operator: Asker, signal: str | int) -> None:
    assert operator.post("/v1/job-failures", json=told(signal=signal)).json["signal"] == "SIGKILL"


def test_an_exit_code_is_told_as_python_says_it_and_found_by_that(operator: Asker) -> None:
    found = operator.post("/v1/job-failures", json=told(exit_code=-11, signals=[])).json

    assert (found["exit_code"], found["attribution"]) == (-11, "undecided")
    assert "SIGSEGV" in found["evidence"][0]["what"]
    ids = [one["id"] for one in operator.get("/v1/job-failures?exit_code=-11").json["items"]]
    assert ids == [found["id"]]
    assert operator.get("/v1/job-failures?exit_code=11").json["items"] == []
    assert operator.get("/v1/job-failures?exit_code=--11").status_code == 422


def test_a_node_that_is_named_twice_is_one_and_an_unknown_one_gets_no_record(operator: Asker) -> None:
    found = operator.post("/v1/job-failures", json=told(nodes=["ghost", "ghost"])).json

    assert operator.get(f"/v1/job-failures/{found['id']}").json["nodes"] == ["ghost"]
    assert operator.get("/v1/nodes/ghost").status_code == 404


def test_a_failure_that_is_not_there_is_not_found(operator: Asker) -> None:
    assert operator.get("/v1/job-failures/nothing").json["code"] == "not_found"
