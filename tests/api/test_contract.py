# SPDX-License-Identifier: Apache-2.0
"""Is the published document right? It is valid, whole, and what it says of roles, parameters and answers holds."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from flask import Flask
from openapi_spec_validator import validate

from api.app import create_app
from api.contract import says
from api.openapi import CODE_STATUS, document
from api.report_parts import COMMANDS
from api.reports_body import FIELDS
from api.reports_values import ENTRIES_MAX, FIRMWARE_MAX, READINGS_MAX
from api.schemas import taken
from registry.config import Settings
from registry.domain.errors import PROBLEM_CODES
from registry.domain.roles import Role
from tests.api.conftest import Asker
from tests.api.v1.fleet import SERIALS, admit, report
from tests.clock import Clock

NOWHERE = Settings(database_url="sqlite:////nonexistent", data_dir=Path("/nonexistent"), secret_key="x" * 32)
DOCUMENT = document(create_app(NOWHERE))

Operation = tuple[str, str, dict[str, Any]]
OPERATIONS: list[Operation] = [
    (path, method.upper(), stated) for path, methods in DOCUMENT["paths"].items() for method, stated in methods.items()
]
NAMES = [f"{method} {path}" for path, method, _ in OPERATIONS]


def test_the_document_is_valid_openapi() -> None:
    validate(json.loads(json.dumps(DOCUMENT)))

    assert DOCUMENT["openapi"].startswith("3.1.")


def test_it_is_handed_out_to_anybody(anonymous: Asker) -> None:
    assert anonymous.get("/openapi.json").json == json.loads(json.dumps(DOCUMENT))


def test_it_lists_every_route_and_no_other(app: Flask) -> None:
    served = {
        (rule.endpoint, method)
        for rule in app.url_map.iter_rules()
        if rule.rule != "/" and not rule.rule.startswith("/console")  # pages for people
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }

    assert {(stated["operationId"], method) for _, method, stated in OPERATIONS} == served


def test_it_lists_every_problem_code_and_where_it_may_come() -> None:
    listed = {code for _, _, stated in OPERATIONS for codes in problems_of(stated).values() for code in codes}

    assert tuple(DOCUMENT["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]) == PROBLEM_CODES
    # No address that takes a method can say of it that it does not: this code is in the introduction.
    assert set(PROBLEM_CODES) - listed == {"method_not_allowed"}
    assert "method_not_allowed" in DOCUMENT["info"]["description"]
    assert set(CODE_STATUS) == set(PROBLEM_CODES)


def test_a_route_that_nobody_says_anything_of_is_noticed() -> None:
    app = create_app(NOWHERE)
    app.add_url_rule("/silent", view_func=lambda: "")

    with pytest.raises(TypeError, match="/silent"):
        document(app)


def test_a_handler_says_what_it_does_in_one_sentence() -> None:
    assert [name for name, (_, _, stated) in zip(NAMES, OPERATIONS, strict=True) if not stated["summary"]] == []
    with pytest.raises(TypeError, match="docstring"):
        says({200: {}})(lambda: None)


def test_what_is_read_by_hand_is_documented_as_it_is_read() -> None:
    parts = taken.report_parts(COMMANDS)["properties"]

    assert taken.REPORT["properties"].keys() == FIELDS
    assert parts.keys() == FIELDS | COMMANDS.keys()
    assert (taken.ENTRIES_MAX, taken.FIRMWARE_MAX, taken.READINGS_MAX) == (ENTRIES_MAX, FIRMWARE_MAX, READINGS_MAX)


@pytest.mark.parametrize("role", list(Role))
def test_a_role_reaches_what_the_document_lets_it_reach_and_nothing_else(
    asker: Callable[..., Asker], role: Role
) -> None:
    asking = asker(role, node="own" if role is Role.NODE else None)

    for name, (path, method, stated) in zip(NAMES, OPERATIONS, strict=True):
        response = asking.ask(method, fill(path, "own"))
        is_let_in = not stated["x-roles"] or role in stated["x-roles"]

        assert (response.status_code == 403) is not is_let_in, f"{role} {name}: {response.text}"


def test_a_nodes_token_reaches_no_address_of_another_node(asker: Callable[..., Asker]) -> None:
    asking = asker(Role.NODE, node="own")
    of_nodes = [(path, method) for path, method, _ in OPERATIONS if "{node}" in path]
    assert len(of_nodes) >= 7

    assert {asking.ask(method, fill(path, "other")).status_code for path, method in of_nodes} == {403}


def test_without_a_token_only_what_needs_none_is_answered(anonymous: Asker) -> None:
    for path, method, stated in OPERATIONS:
        status = anonymous.ask(method, fill(path, "own")).status_code

        assert (status == 401) is bool(stated["x-roles"]), f"{method} {path}"


def test_a_parameter_that_is_not_documented_is_refused_and_those_that_are_are_named(admin: Asker) -> None:
    for path, method, stated in OPERATIONS:
        if not stated["x-roles"] or path.endswith("/reports"):
            continue
        documented = sorted(one["name"] for one in stated["parameters"] if one["in"] == "query")
        options = {"json": stated["requestBody"]["content"]["application/json"]["example"]} if example(stated) else {}

        refused = admin.ask(method, fill(path, "own") + "?nonsense=1", **options)

        assert refused.status_code == 422, f"{method} {path}: {refused.text}"
        takes = f"this address takes {', '.join(documented) or 'none'}"
        assert [takes] == [
            error["detail"].partition("; ")[2] for error in refused.json["errors"] if error["pointer"] == "/nonsense"
        ], f"{method} {path}"


def test_every_example_is_taken(admin: Asker, node: Asker, clock: Clock) -> None:
    admit(admin, node, clock)
    bodies = 0
    for path, method, stated in OPERATIONS:
        if not example(stated) or path.endswith("/reports"):
            continue
        body = copy.deepcopy(stated["requestBody"]["content"]["application/json"]["example"])
        response = admin.ask(method, fill(path, "node-a"), json=body)
        bodies += 1

        is_taken = response.status_code in {200, 201, 404} or response.json["code"] in {"not_found", "not_open"}
        assert is_taken, response.text
    assert bodies >= 8
    assert node.post("/v1/nodes/node-a/reports", json=taken.REPORT_EXAMPLE).status_code == 200


def test_answers_have_every_member_that_is_documented_and_no_other(admin: Asker, node: Asker, clock: Clock) -> None:
    seen = 0
    for method, path, response in a_story(admin, node, clock):
        template = next(one for one in DOCUMENT["paths"] if fits(one, path) and method in DOCUMENT["paths"][one])
        answers = DOCUMENT["paths"][template][method]["responses"]
        assert str(response.status_code) in answers, response.text
        schema = answers[str(response.status_code)]["content"]["application/json"]["schema"]
        closed = close({"allOf": [schema], "components": DOCUMENT["components"]})
        jsonschema.validate(response.json, closed, cls=jsonschema.Draft202012Validator)
        seen += 1
    assert seen >= 20


def a_story(admin: Asker, node: Asker, clock: Clock) -> Iterator[tuple[str, str, Any]]:
    """Ask for something of every sort, and yield method, path and answer."""
    admit(admin, node, clock)

    def get(path: str) -> tuple[str, str, Any]:
        return "get", path, admin.get(path)

    def post(path: str, body: Any) -> tuple[str, str, Any]:
        return "post", path, admin.post(path, json=body)

    yield "post", "/v1/nodes/node-a/reports", node.post("/v1/nodes/node-a/reports", json=report())
    swapped = report(report_id="swapped", checks=[])
    swapped["devices"][0]["serial"] = "1654000000099"
    yield "post", "/v1/nodes/node-a/reports", node.post("/v1/nodes/node-a/reports", json=swapped)
    fault = {"failure_id": "f-1", "device": SERIALS[0], "code": "xid_79", "occurred_at": "2026-11-29T12:00:00Z"}
    yield post("/v1/failures", {"failures": [fault, {**fault, "failure_id": "f-2", "device": "nobody"}]})
    hold = {"targets": [{"device": SERIALS[1]}, {"device": "nobody"}, {"node": "node-a"}], "reason": "x"}
    yield post("/v1/quarantines", hold)
    yield post("/v1/admissions", {"candidates": [{"node": "node-a"}, {"node": "nobody"}]})
    until = {"until": "2099-01-01T00:00:00Z", "reason": "x"}
    yield post("/v1/nodes/node-a/waivers", {**until, "kind": "gpu", "count": 1})
    yield post("/v1/nodes/node-a/maintenance", until)
    yield post("/v1/tokens", {"role": "auditor", "name": "x"})
    yield post("/v1/join", {"node": "node-x", "provider_id": "i-x"})
    yield from a_jobs_story(admin)
    for noun in ("nodes", "devices", "failures", "quarantines", "conflicts", "events", "profiles", "tokens"):
        yield get(f"/v1/{noun}")
    for noun in ("failures", "quarantines", "conflicts"):
        yield get(f"/v1/{noun}/{admin.get(f'/v1/{noun}').json['items'][0]['id']}")
    yield from a_subscriptions_story(admin)
    yield get("/v1/nodes/node-a")
    yield post(f"/v1/devices/{SERIALS[0]}/notes", {"text": "x"})
    yield get(f"/v1/devices/{SERIALS[0]}")
    yield get(f"/v1/devices/{SERIALS[0]}/history")
    yield get("/v1/nodes/node-a/admission")
    yield get("/v1/nodes/node-a/history")
    yield get("/v1/audit/verify")
    yield get("/health/live")
    yield get("/health/ready")
    held = admin.get("/v1/quarantines?state=open").json["items"][0]["id"]
    yield post(f"/v1/quarantines/{held}/review", {"reason": "x", "ticket": "RMA-7"})
    yield post("/v1/quarantines/release", {"targets": hold["targets"], "reason": "x"})
    yield post("/v1/nodes/node-a/retire", {})


def a_jobs_story(admin: Asker) -> Iterator[tuple[str, str, Any]]:
    """Let a job tell of itself, and ask what became of it."""
    at = "2026-11-29T11:00:0{}Z".format
    begun = {"event_id": "e-1", "kind": "started", "at": at(0), "nodes": ["node-a"], "devices": 2}
    stopped = {"event_id": "e-2", "kind": "interrupted", "at": at(9), "cause": "hardware"}
    refused = {**begun, "event_id": "e-3", "at": at(5), "step": 1}
    path = "/v1/jobs/job-1/events"
    yield "post", path, admin.post(path, json={"events": [begun, stopped, refused]})
    for path in ("/v1/jobs", "/v1/jobs/job-1", "/v1/slo"):
        yield "get", path, admin.get(path)


def a_subscriptions_story(admin: Asker) -> Iterator[tuple[str, str, Any]]:
    """Subscribe an address, and ask what it was told."""
    made = admin.post("/v1/webhooks", json={"url": "https://hooks.example/", "algorithm": "ed25519"})
    path = f"/v1/webhooks/{made.json['id']}"
    yield "post", "/v1/webhooks", made
    yield "post", f"{path}/rotate", admin.post(f"{path}/rotate", json={})
    yield "post", f"{path}/test", admin.post(f"{path}/test")
    for where in ("/v1/webhooks", path, f"{path}/deliveries"):
        yield "get", where, admin.get(where)
    yield "patch", path, admin.ask("PATCH", path, json={"enabled": False})


def close(schema: Any) -> Any:
    """Refuse members that are not documented, so that a new one has to be."""
    if isinstance(schema, list):
        return [close(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: close(one) for name, one in schema.items()}
    is_object = closed.get("type") == "object" and "properties" in closed
    return {"additionalProperties": False, **closed} if is_object else closed


def example(stated: dict[str, Any]) -> Any:
    return stated.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")


def problems_of(stated: dict[str, Any]) -> dict[str, list[str]]:
    """The problem codes of an operation by status."""
    return {
        status: answer["content"]["application/problem+json"]["schema"]["allOf"][1]["properties"]["code"]["enum"]
        for status, answer in stated["responses"].items()
        if "application/problem+json" in answer.get("content", {})
    }


def fill(path: str, node: str) -> str:
    """Write an address whose records need not exist; a token in it is that of whoever asks."""
    filled = path.replace("{node}", node)
    return "/".join("own" if part.startswith("{") and part != "{secret}" else part for part in filled.split("/"))


def fits(template: str, path: str) -> bool:
    parts, given = template.split("/"), path.split("/")
    return len(parts) == len(given) and all(
        one == other or one.startswith("{") for one, other in zip(parts, given, strict=True)
    )
