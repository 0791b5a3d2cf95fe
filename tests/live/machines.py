# SPDX-License-Identifier: Apache-2.0
"""What do the live tests' nodes send? Reports of machines whose hardware nobody else in the run has."""

from __future__ import annotations

import itertools
from typing import Any

from tests.live.server import Caller, LiveServer

PROFILE = "g5.12xlarge"
GPU_COUNT = 4
CHECKS = ("gpu.ecc", "gpu.row_remap", "gpu.xid")

_numbers = itertools.count(1)


def gpu(number: int, slot: int) -> dict[str, Any]:
    """GPU `number` of the world in slot `slot`."""
    return {
        "kind": "gpu",
        "vendor": "nvidia",
        "serial": serial(number),
        "uuid": f"GPU-{number:08x}-0000-0000-0000-{number:012x}",
        "slot": f"0000:{0x10 + slot:02x}:00.0",
        "model": "NVIDIA A10G",
    }


def serial(number: int) -> str:
    """The thirteen digits of a serial."""
    return f"{1650000000000 + number:013d}"


class Node:
    """A machine with four GPUs of its own, and the token of its name."""

    def __init__(self, server: LiveServer, *, gpus: list[int] | None = None) -> None:
        number = next(_numbers)
        self.name = f"node-{number}"
        self.provider_id = f"i-{number}"
        self.caller: Caller = server.caller("node", self.name)
        self.gpus = gpus or fresh_gpus(GPU_COUNT)

    def body(self, **changes: Any) -> dict[str, Any]:
        """A clean report of what is in it now."""
        devices = [gpu(number, slot) for slot, number in enumerate(self.gpus)]
        return {
            "report_id": f"report-{next(_numbers)}",
            "boot_id": "boot-1",
            "provider_id": self.provider_id,
            "profile": PROFILE,
            "covers": ["gpu"],
            "devices": devices,
            "checks": [{"name": name, "status": "pass"} for name in CHECKS],
            **changes,
        }

    @property
    def path(self) -> str:
        """Where its reports go."""
        return f"/v1/nodes/{self.name}/reports"

    def report(self, **changes: Any) -> dict[str, Any]:
        """Send a report, which must be accepted, and return the answer."""
        answer = self.caller.post(self.path, self.body(**changes))
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    def admit(self) -> dict[str, Any]:
        """Send two clean reports; the second must admit it."""
        self.report()
        told = self.report()
        assert told["admission"]["admitted"], told
        return told

    def decision(self, **given: Any) -> dict[str, Any]:
        """Ask whether it may take work."""
        told: dict[str, Any] = self.caller.get(f"/v1/nodes/{self.name}/admission", **given)
        return told


def fresh_gpus(count: int) -> list[int]:
    """Numbers of GPUs that nobody has had."""
    return [next(_numbers) for _ in range(count)]


def codes(decision: dict[str, Any]) -> list[str]:
    """The reason codes of a decision, in their order."""
    return [reason["code"] for reason in decision["reasons"]]


def held(node: Node, slot: int = 0) -> dict[str, Any]:
    """The target that means the GPU in a slot of a node."""
    return {"device": serial(node.gpus[slot])}


def quarantine(operator: Caller, *targets: dict[str, Any], fresh: bool = False, **how: Any) -> list[dict[str, Any]]:
    """Hold targets, which must work, and return the items."""
    answer = operator.post("/v1/quarantines", {"targets": list(targets), "reason": "it smells", **how}, fresh=fresh)
    assert answer.status_code in {200, 201}, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def release(operator: Caller, hold_id: str) -> None:
    """Let go of a hold, which must be open."""
    answer = operator.post(f"/v1/quarantines/{hold_id}/release", {"reason": "tested"})
    assert answer.status_code == 200, answer.text


def all_events(auditor: Caller, **filters: Any) -> list[dict[str, Any]]:
    """Walk the whole history in pages, oldest first."""
    return walk(auditor, "/v1/events", limit=500, **filters)


def walk(caller: Caller, path: str, *, fresh: bool = False, **query: Any) -> list[dict[str, Any]]:
    """Follow the cursors of a list to its end."""
    items: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = caller.get(path, params={**query, **cursor}, fresh=fresh)
        items += page["items"]
        if page["next"] is None:
            return items
        cursor = {"cursor": page["next"]}
