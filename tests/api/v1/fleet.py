# SPDX-License-Identifier: Apache-2.0
"""What does a node of the tests send? Two GPUs with serials of their own, and clean checks."""

from __future__ import annotations

import itertools
from typing import Any

from tests.api.conftest import Asker
from tests.clock import Clock

PROFILE = {"gpu": {"count": 2}, "required_checks": ["gpu.count", "gpu.identity", "gpu.ecc"]}
SERIALS = ("1654000000001", "1654000000002")
GAP_SECONDS = 31

_numbers = itertools.count(1)


def gpu(serial: str, bus: int = 0x10) -> dict[str, Any]:
    """One GPU whose UUID follows from its serial."""
    return {
        "kind": "gpu",
        "vendor": "nvidia",
        "serial": serial,
        "uuid": f"GPU-00000000-0000-0000-0001-{int(serial):012d}",
        "slot": f"0000:{bus:02x}:00.0",
        "model": "NVIDIA H100 80GB HBM3",
    }


def report(*serials: str, **changes: Any) -> dict[str, Any]:
    """A clean report of these GPUs."""
    devices = [gpu(serial, 0x10 + at) for at, serial in enumerate(serials or SERIALS)]
    return {
        "report_id": f"report-{next(_numbers)}",
        "boot_id": "boot-1",
        "provider_id": "i-1",
        "profile": "tiny",
        "covers": ["gpu"],
        "devices": devices,
        "checks": [{"name": "gpu.ecc", "status": "pass", "device": device["slot"]} for device in devices],
        **changes,
    }


def send(node: Asker, name: str = "node-a", **changes: Any) -> dict[str, Any]:
    """Send a clean report and return the answer."""
    response = node.post(f"/v1/nodes/{name}/reports", json=report(**changes))
    assert response.status_code == 200, response.text
    answered: dict[str, Any] = response.json
    return answered


def admit(operator: Asker, node: Asker, clock: Clock) -> dict[str, Any]:
    """Describe the profile and bring `node-a` to where it is admitted; return the last answer."""
    assert operator.put("/v1/profiles/tiny", json=PROFILE).status_code in {200, 201}
    send(node)
    clock.advance(GAP_SECONDS)
    return send(node)


def codes(decision: dict[str, Any]) -> list[str]:
    """The reason codes of a decision, in their order."""
    return [reason["code"] for reason in decision["reasons"]]
