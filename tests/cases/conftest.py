# SPDX-License-Identifier: Apache-2.0
"""How do the cases speak to the service? As nodes and operators over HTTP, and nothing behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from itertools import count
from typing import Any

import pytest
from werkzeug.test import TestResponse

from api.app import create_app
from api.background import Background
from api.context import standing
from registry.config import Settings
from registry.domain.policy_file import parse_policy
from registry.domain.roles import Role
from tests.api import conftest as api
from tests.api.conftest import Asker
from tests.clock import Clock

# The fixtures of the doors, which pytest would else keep to their own folder.
settings, app, token, asker, operator = api.settings, api.app, api.token, api.asker, api.operator

GAP_SECONDS = 31

one_engine = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
"""For the many variations of one case: what is read is judged there, not how it is kept."""


def card(number: int, **changes: Any) -> dict[str, Any]:
    """GPU `number` of the world; a change to None leaves the field out."""
    made = {
        "kind": "gpu",
        "vendor": "nvidia",
        "serial": f"165{number:010d}",
        "uuid": f"GPU-aaaa{number:04d}-0000-0000-0000-{number:012d}",
        "slot": f"0000:{0x10 + number:02x}:00.0",
        "model": "NVIDIA H100 80GB HBM3",
        **changes,
    }
    return {name: value for name, value in made.items() if value is not None}


def codes(decision: dict[str, Any]) -> list[str]:
    """The reason codes of a decision, in their order."""
    return [reason["code"] for reason in decision["reasons"]]


class World:
    """Nodes that report and an operator who looks, on a clock that the test moves."""

    def __init__(
        self, operator: Asker, asker: Callable[..., Asker], clock: Clock, *, numbers: Iterator[int] | None = None
    ) -> None:
        self.operator = operator
        self.clock = clock
        self.numbers = numbers or count(1)
        """What tells reports and faults apart."""
        self._asker = asker
        self._nodes: dict[str, Asker] = {}

    def expect(self, gpus: int, *required: str, efas: int = 0) -> None:
        """Describe the profile that every node names."""
        body = {"gpu": {"count": gpus}, "required_checks": ["gpu.count", "gpu.identity", *required]}
        body |= {"efa": {"count": efas}} if efas else {}
        assert self.operator.put("/v1/profiles/cases", json=body).status_code in {200, 201}

    def node(self, name: str) -> Asker:
        """The holder of a node's token."""
        if name not in self._nodes:
            self._nodes[name] = self._asker(Role.NODE, node=name)
        return self._nodes[name]

    def post(self, node: str, devices: list[dict[str, Any]] | None = None, **fields: Any) -> TestResponse:
        """Send a report as JSON."""
        return self.node(node).post(f"/v1/nodes/{node}/reports", json=self._body(node, fields, devices=devices))

    def post_raw(self, node: str = "node-a", *, fields: dict[str, Any] | None = None, **parts: bytes) -> TestResponse:
        """Send a report made of what tools printed."""
        covers = {"covers": '["gpu"]'} if any(name.startswith("nvidia_smi") for name in parts) else {}
        body = {**self._body(node, fields or {}), **covers}
        files = {name: (BytesIO(content), "output") for name, content in parts.items()}
        return self.node(node).post(
            f"/v1/nodes/{node}/reports", data={**body, **files}, content_type="multipart/form-data"
        )

    def _body(self, node: str, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
        plain = {
            "report_id": f"report-{next(self.numbers)}",
            "boot_id": f"boot-of-{node}",
            "provider_id": f"i-of-{node}",
            "profile": "cases",
        }
        covers = {} if more.get("devices") is None else {"covers": ["gpu"]}
        return {name: value for name, value in {**plain, **covers, **more, **fields}.items() if value is not None}

    def report(self, node: str, devices: list[dict[str, Any]] | None = None, **fields: Any) -> dict[str, Any]:
        """Send a report that is taken, and return the answer."""
        return taken(self.post(node, devices, **fields))

    def report_raw(self, node: str = "node-a", **parts: Any) -> dict[str, Any]:
        """Send raw output that is taken, and return the answer."""
        return taken(self.post_raw(node, **parts))

    def admit(self, node: str, devices: list[dict[str, Any]]) -> dict[str, Any]:
        """Send a list twice, a gap apart, and return the decision."""
        self.report(node, devices)
        self.clock.advance(GAP_SECONDS)
        decision: dict[str, Any] = self.report(node, devices)["admission"]
        return decision

    def show(self, node: str = "node-a") -> dict[str, Any]:
        """What is known of a node."""
        return taken(self.operator.get(f"/v1/nodes/{node}"))

    def on(self, node: str = "node-a") -> list[dict[str, Any]]:
        """The entries of a node's last list."""
        devices: list[dict[str, Any]] = self.show(node)["devices"]
        return devices

    def devices(self, **filters: str) -> list[dict[str, Any]]:
        """Every device on record."""
        items: list[dict[str, Any]] = taken(
            self.operator.get("/v1/devices", query_string={"limit": "1000", **filters})
        )["items"]
        return items

    def decision(self, node: str = "node-a") -> dict[str, Any]:
        """May the node take work now?"""
        return taken(self.operator.get(f"/v1/nodes/{node}/admission"))

    def fault(self, code: str, *, at: Asker | None = None, **where: Any) -> dict[str, Any]:
        """Report a fault that is taken, and return it."""
        body = {
            "failure_id": f"fault-{next(self.numbers)}",
            "code": code,
            "occurred_at": self.clock.now.isoformat(),
            **where,
        }
        response = (at or self.operator).post("/v1/failures", json=body)
        assert response.status_code == 201, response.text
        failure: dict[str, Any] = response.json["items"][0]["failure"]
        return failure

    def hold(self, *targets: dict[str, Any], **how: Any) -> TestResponse:
        """Ask for quarantine."""
        return self.operator.post("/v1/quarantines", json={"targets": list(targets), "reason": "tested", **how})

    def events(self, *types: str, **filters: str) -> list[dict[str, Any]]:
        """The history, oldest first; of these types only, where some are named."""
        found: list[dict[str, Any]] = []
        asked = {"limit": "1000", **filters}
        while True:
            page = taken(self.operator.get("/v1/events", query_string=asked))
            found += page["items"]
            if page["next"] is None:
                return [one for one in found if not types or one["type"] in types]
            asked["cursor"] = page["next"]


def taken(response: TestResponse) -> dict[str, Any]:
    """Return the body of a 200."""
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json
    return body


@contextmanager
def restarted(world: World, settings: Settings, policy: str = "") -> Iterator[World]:
    """The same nodes and operator before a service that was started anew, which may have another policy file."""
    app = create_app(replace(settings, policy_as_written=parse_policy(policy)), clock=world.clock)

    def again(before: Asker) -> Asker:
        now = Asker(app.test_client(), None)
        now.headers = before.headers
        return now

    def asker(role: Role, *, node: str) -> Asker:
        assert role is Role.NODE
        return again(world.node(node))

    Background(standing(app)).beat()
    yield World(again(world.operator), asker, world.clock, numbers=world.numbers)
    standing(app).database.close_all()


@pytest.fixture
def world(operator: Asker, asker: Callable[..., Asker], clock: Clock) -> World:
    """The nodes and the operator of a case."""
    return World(operator, asker, clock)
