# SPDX-License-Identifier: Apache-2.0
"""Does a report through the door answer what counted, and the decision?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.conftest import Asker
from tests.api.v1.fleet import GAP_SECONDS, PROFILE, SERIALS, admit, codes, gpu, report, send
from tests.clock import Clock

ADDRESS = "/v1/nodes/node-a/reports"


def test_the_first_report_is_pass_one_of_two(operator: Asker, node: Asker) -> None:
    operator.put("/v1/profiles/tiny", json=PROFILE)

    answered = send(node, report_id="r-1")

    assert answered["report_id"] == "r-1"
    assert answered["replayed"] is False
    assert answered["pass"] == {"counted": True, "because": None, "have": 1, "need": 2} | {
        name: value for name, value in answered["pass"].items() if name == "detail"
    }
    assert codes(answered["admission"]) == ["passes_insufficient"]


def test_two_clean_runs_admit(operator: Asker, node: Asker, clock: Clock) -> None:
    answered = admit(operator, node, clock)

    assert answered["admission"]["admitted"] is True
    assert answered["admission"]["disposition"] == "admit"


def test_the_same_body_again_is_replayed_and_another_is_refused(operator: Asker, node: Asker) -> None:
    operator.put("/v1/profiles/tiny", json=PROFILE)
    body = report()

    first, again = node.post(ADDRESS, json=body), node.post(ADDRESS, json=body)
    other = node.post(ADDRESS, json={**body, "zone": "b"})

    assert (first.json["replayed"], again.json["replayed"]) == (False, True)
    assert first.json["pass"] == again.json["pass"]
    assert (other.status_code, other.json["code"]) == (422, "report_id_reused")


def test_an_unknown_profile_is_a_no_and_no_error(node: Asker) -> None:
    assert "profile_unknown" in codes(send(node, profile="nobody-described-it")["admission"])


def test_one_slot_twice_is_refused(operator: Asker, node: Asker) -> None:
    operator.put("/v1/profiles/tiny", json=PROFILE)
    twice = [gpu(SERIALS[0]), gpu(SERIALS[0])]

    response = node.post(ADDRESS, json=report(devices=twice))

    assert (response.status_code, response.json["code"]) == (422, "slot_repeated")


def test_a_list_that_does_not_say_what_it_covers_must_hold_every_kind(operator: Asker, node: Asker) -> None:
    operator.put("/v1/profiles/tiny", json={**PROFILE, "efa": {"count": 1}})

    response = node.post(ADDRESS, json=report(covers=None))

    assert (response.status_code, response.json["code"]) == (422, "covers_required")


def test_an_older_instance_is_superseded(operator: Asker, node: Asker, clock: Clock) -> None:
    admit(operator, node, clock)
    clock.advance(GAP_SECONDS)
    send(node, provider_id="i-2", boot_id="boot-2")

    response = node.post(ADDRESS, json=report())

    assert (response.status_code, response.json["code"]) == (409, "instance_superseded")


def test_raw_output_and_json_make_one_report(operator: Asker, node: Asker) -> None:
    operator.put("/v1/profiles/tiny", json={"gpu": {"count": 1}, "efa": {"count": 1}, "required_checks": ["gpu.count"]})
    efa = {"kind": "efa", "vendor": "amazon", "slot": "0000:50:00.0", "name": "rdmap80s0", "mac": "02:00:00:00:00:01"}
    fields: dict[str, Any] = {name: report()[name] for name in ("report_id", "boot_id", "provider_id", "profile")}
    fields["devices"] = json.dumps([efa])
    fields["nvidia_smi_list"] = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0001-000000000001)\n"

    response = node.post(ADDRESS, data=fields, content_type="multipart/form-data")

    assert response.status_code == 200, response.text
    shown = operator.get("/v1/nodes/node-a").json
    assert sorted(device["kind"] for device in shown["devices"]) == ["efa", "gpu"]


@pytest.mark.parametrize("name", ["a" * 254, "node%20a", "n%C3%B6de"])
def test_a_name_that_no_node_can_have_is_refused(admin: Asker, name: str) -> None:
    response = admin.post(f"/v1/nodes/{name}/reports", json=report())

    assert (response.status_code, response.json["code"]) == (422, "invalid_field")
