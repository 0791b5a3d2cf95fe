# SPDX-License-Identifier: Apache-2.0
"""How is NVML asked so that a driver that hangs holds nobody up? In a process of its own, which can be killed.

`python -m registry.agent.asking_nvml` asks, and writes the list as JSON for the agent.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec

from registry.collectors import nvml
from registry.collectors.running import Runner, ToolFailed
from registry.domain.errors import PartUnreadable
from registry.domain.reports import CheckResult, CheckStatus, DeviceEntry, Inventory, Notice


def is_here() -> bool:
    """Is there a library that speaks to NVML? It is not loaded here."""
    return find_spec("pynvml") is not None


def ask(run: Runner) -> Inventory | None:
    """Ask through `run`; None where NVML has nothing to say. Raises ToolFailed, PartUnreadable."""
    try:
        said = json.loads(run([sys.executable, "-m", "registry.agent.asking_nvml"]))
    except ToolFailed as error:
        raise ToolFailed(f"NVML was asked, and {error}") from error
    except ValueError as error:
        raise ToolFailed("NVML was asked, and gave no whole answer") from error
    if said is None:
        return None
    if "unreadable" in said:
        raise PartUnreadable(said["unreadable"])
    return Inventory(
        kind=said["kind"],
        entries=tuple(DeviceEntry(**{**one, "slices": tuple(one["slices"])}) for one in said["entries"]),
        checks=tuple(CheckResult(**{**one, "status": CheckStatus(one["status"])}) for one in said["checks"]),
        attached=said["attached"],
        warnings=tuple(Notice(**one) for one in said["warnings"]),
    )


def answer(look: Callable[[], Inventory | None] = nvml.collect) -> str:
    """Ask here, and give the answer as JSON."""
    try:
        found = look()
    except PartUnreadable as error:
        return json.dumps({"unreadable": error.detail})
    return json.dumps(None if found is None else asdict(found))


if __name__ == "__main__":
    sys.stdout.write(answer())
