# SPDX-License-Identifier: Apache-2.0
"""What do the tests of passes say of a run, and what is told of it?"""

from __future__ import annotations

from typing import Any

from registry.domain.reports import CheckResult, CheckStatus
from registry.store.history import page_events
from tests.fleet import CLEAN_GPU, Fleet, passing

GPUS = {"gpu": {"count": 4}}
"""A profile that expects what the default node has."""


def told(answer: dict[str, Any]) -> tuple[bool, str | None, int]:
    """What an answer says of the pass."""
    said = answer["pass"]
    return said["counted"], said["because"], said["have"]


def results(**statuses: str) -> tuple[CheckResult, ...]:
    """The clean checks, some of them with another status; names with a dot are written with two underscores."""
    changed = {name.replace("__", "."): CheckStatus(status) for name, status in statuses.items()}
    kept = tuple(one for one in passing(*CLEAN_GPU) if one.name not in changed)
    return (*kept, *(CheckResult(name, status) for name, status in changed.items()))


def events(fleet: Fleet, type_: str) -> list[dict[str, Any]]:
    """The data of all events of a type."""
    with fleet.db.read() as snapshot:
        return [dict(one.data) for one in page_events(snapshot, types=[type_], limit=1000)]
