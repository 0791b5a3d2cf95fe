# SPDX-License-Identifier: Apache-2.0
"""May each role do exactly what it is for? Every route is tried with every role, and none is left out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask

from registry.domain.roles import Role
from tests.api.conftest import Asker

READ = frozenset({Role.OPERATOR, Role.AUDITOR, Role.ADMIN})
WORK = frozenset({Role.OPERATOR, Role.ADMIN})
RULE = frozenset({Role.ADMIN})
SPEAK = frozenset({Role.NODE, Role.ADMIN})

ROUTES: dict[str, frozenset[Role]] = {
    "POST /v1/nodes/<node>/reports": SPEAK,
    "GET /v1/nodes": READ,
    "GET /v1/nodes/<node>": READ,
    "GET /v1/nodes/<node>/admission": READ | {Role.NODE},
    "GET /v1/nodes/<node>/history": READ,
    "POST /v1/nodes/<node>/retire": WORK,
    "POST /v1/nodes/<node>/maintenance": WORK,
    "POST /v1/nodes/<node>/waivers": WORK,
    "POST /v1/admissions": READ,
    "GET /v1/devices": READ,
    "GET /v1/devices/<path:ref>": READ,
    "GET /v1/devices/<path:ref>/history": READ,
    "GET /v1/devices/<path:ref>/bundle": READ,
    "POST /v1/devices/<path:ref>/notes": WORK,
    "POST /v1/failures": WORK | {Role.NODE},
    "GET /v1/failures": READ,
    "GET /v1/failures/<failure>": READ,
    "POST /v1/failures/<failure>/withdraw": WORK,
    "POST /v1/quarantines": WORK,
    "GET /v1/quarantines": READ,
    "GET /v1/quarantines/<quarantine_id>": READ,
    "POST /v1/quarantines/<quarantine_id>/release": WORK,
    "POST /v1/quarantines/<quarantine_id>/review": WORK,
    "POST /v1/quarantines/release": WORK,
    "POST /v1/quarantines/import": WORK,
    "GET /v1/conflicts": READ,
    "GET /v1/conflicts/<conflict>": READ,
    "POST /v1/conflicts/<conflict>/resolve": WORK,
    "GET /v1/repairs": READ,
    "GET /v1/repairs/budget": READ,
    "GET /v1/repairs/<repair>": READ,
    "POST /v1/repairs/<repair>/claim": WORK,
    "POST /v1/repairs/<repair>/complete": WORK,
    "POST /v1/repairs/<repair>/cancel": WORK,
    "POST /v1/repairs/stop": WORK,
    "POST /v1/repairs/resume": WORK,
    "POST /v1/jobs/<job>/events": WORK,
    "GET /v1/jobs": READ,
    "GET /v1/jobs/<job>": READ,
    "POST /v1/job-failures": WORK,
    "GET /v1/job-failures": READ,
    "GET /v1/job-failures/<job_failure>": READ,
    "GET /v1/slo": READ,
    "GET /v1/webhooks": READ,
    "POST /v1/webhooks": RULE,
    "GET /v1/webhooks/<webhook>": READ,
    "PATCH /v1/webhooks/<webhook>": RULE,
    "DELETE /v1/webhooks/<webhook>": RULE,
    "POST /v1/webhooks/<webhook>/rotate": RULE,
    "POST /v1/webhooks/<webhook>/test": RULE,
    "GET /v1/webhooks/<webhook>/deliveries": READ,
    "POST /v1/webhooks/<webhook>/replay": RULE,
    "GET /v1/events": READ,
    "GET /v1/events/export": READ,
    "GET /v1/audit/checkpoint": READ,
    "GET /v1/audit/verify": READ,
    "GET /v1/profiles": READ,
    "GET /v1/profiles/<name>": READ,
    "PUT /v1/profiles/<name>": WORK,
    "GET /v1/policy": READ,
    "POST /v1/tokens": RULE,
    "GET /v1/tokens": RULE,
    "DELETE /v1/tokens/<token>": RULE,
    "POST /v1/join": RULE | {Role.JOIN},
    "POST /v1/service/acknowledge": RULE,
    "POST /k8s/nodes/validate": WORK | {Role.WEBHOOK},
    "POST /k8s/<secret>/nodes/validate": WORK | {Role.WEBHOOK},
    "POST /k8s/nodes/mutate": WORK | {Role.WEBHOOK},
    "POST /k8s/<secret>/nodes/mutate": WORK | {Role.WEBHOOK},
}
"""Who may use each route."""

OPEN_TO_ALL = {
    *("GET /health/live", "GET /health/ready", "GET /openapi.json", "GET /docs", "GET /metrics"),
    "GET /bootstrap.sh",
}
ASSETS = {"GET /docs/<file>"}


def routes(app: Flask) -> set[str]:
    return {
        f"{method} {rule.rule}"
        for rule in app.url_map.iter_rules()
        if rule.rule != "/" and not rule.rule.startswith("/console")  # have a table of their own
        for method in rule.methods or ()
        if method not in {"HEAD", "OPTIONS"}
    }


def test_the_table_names_every_route(app: Flask) -> None:
    assert routes(app) == ROUTES.keys() | OPEN_TO_ALL | ASSETS


@pytest.mark.parametrize("role", list(Role))
def test_a_role_may_do_what_it_is_for_and_nothing_else(asker: Callable[..., Asker], role: Role) -> None:
    asking = asker(role, node="a" if role is Role.NODE else None)

    reached = {route for route in ROUTES if status(asking, route) != 403}

    assert reached == {route for route, allowed in ROUTES.items() if role in allowed}


def test_without_a_token_only_what_tells_of_no_record_is_answered(anonymous: Asker) -> None:
    assert {status(anonymous, route) for route in ROUTES} == {401}
    assert {status(anonymous, route) for route in OPEN_TO_ALL} == {200}


@pytest.mark.parametrize("route", ["GET /v1/nodes/node-b/admission", "POST /v1/nodes/node-b/reports"])
def test_a_nodes_token_is_bound_to_its_node(node: Asker, route: str) -> None:
    method, path = route.split()

    response = node.ask(method, path)

    assert response.status_code == 403
    assert "node-a" in response.json["detail"]
    assert "node-b" in response.json["detail"]


def status(asking: Asker, route: str) -> int:
    """Ask with nothing in the body, so that whoever is let in changes nothing."""
    method, path = route.split()
    for name in (
        *("<node>", "<path:ref>", "<failure>", "<quarantine_id>", "<conflict>", "<job>", "<job_failure>", "<name>"),
        *("<token>", "<repair>", "<webhook>"),
    ):
        path = path.replace(name, "a")
    path = path.replace("<secret>", "{secret}")
    return asking.ask(method, path).status_code
