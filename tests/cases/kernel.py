# SPDX-License-Identifier: Apache-2.0
"""What does the kernel of a case say, and how does its node send it? As the text of a log, beside a list or alone."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from tests.cases.conftest import GAP_SECONDS, World, card, taken

CARDS = [card(n) for n in range(1, 5)]
XID = "gpu.xid"
FIRST = "Linux version 6.8.0-1018-aws (builder@host) #19 SMP"
ORDINARY = "eth0: link becomes ready"


def xid(number: int, of: int = 1, said: str = "pid='<unknown>', name=<unknown>, as the driver says it") -> str:
    """The driver's line about card `of`, whose address it prints without a function."""
    return f"NVRM: Xid (PCI:{str(card(of)['slot'])[:-2]}): {number}, {said}"


def at(when: datetime, message: str = ORDINARY) -> str:
    """A line as `journalctl -k -o short-iso-precise` prints it."""
    return f"{when:%Y-%m-%dT%H:%M:%S.%f}+00:00 node-a kernel: {message}"


def since_boot(seconds: float, message: str = ORDINARY) -> str:
    """A line as dmesg prints it."""
    return f"[{seconds:12.6f}] {message}"


def log(*lines: str) -> bytes:
    """The log that holds these lines."""
    return "".join(f"{line}\n" for line in lines).encode()


def look(world: World, *lines: str, node: str = "node-a", cards: Any = CARDS, **fields: Any) -> dict[str, Any]:
    """Report the cards a gap later, with a log of these lines and one that says nothing. `cards` None: no list."""
    world.clock.advance(GAP_SECONDS)
    listed = {} if cards is None else {"devices": json.dumps(cards), "covers": '["gpu"]'}
    text = log(since_boot(1), *lines)
    return world.report_raw(node, kernel_log=text, fields={**listed, **fields})


def bring_up(world: World, **fields: Any) -> None:
    """Let the node be admitted, with the kernel log demanded."""
    world.expect(len(CARDS), XID)
    for _ in range(2):
        answer = look(world, **fields)
    assert answer["admission"]["admitted"] is True, answer


def failures(world: World, **filters: str) -> list[dict[str, Any]]:
    """The faults on record, oldest first."""
    found = taken(world.operator.get("/v1/failures", query_string={"limit": "1000", **filters}))["items"]
    return sorted(found, key=lambda one: str(one["id"]))


def owners(world: World) -> list[str]:
    """Who holds anything."""
    return sorted(one["owner"] for one in taken(world.operator.get("/v1/quarantines?state=open"))["items"])


def release_all(world: World) -> None:
    """Let a person release everything that is held."""
    for one in taken(world.operator.get("/v1/quarantines?state=open"))["items"]:
        taken(world.operator.post(f"/v1/quarantines/{one['id']}/release", json={"reason": "repaired"}))


def xid_check(world: World, node: str = "node-a") -> dict[str, Any]:
    """Where the check of the kernel log stands, by the node's page."""
    return next(one for one in world.show(node)["checks"] if one["name"] == XID)
