# SPDX-License-Identifier: Apache-2.0
"""How do the check states of a node stand in their column? Short, because every report reads and writes them.

`{"at": …, "run": …, "checks": {name: [status, since, findings?, at?, run?]}}`: nearly all checks are clean and of the
newest run, which is said once.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from registry.domain.checks import CheckState
from registry.domain.reports import CheckResult, CheckStatus
from registry.store.column_json import dump, load
from registry.store.values import from_micros, to_micros

_STATUSES = {str(status): status for status in CheckStatus}


@lru_cache(maxsize=4096)
def _moment(micros: int) -> datetime:
    """Checks of a node change together, so that the same few times stand everywhere."""
    return from_micros(micros)


def load_checks(text: str) -> dict[str, CheckState]:
    """Read the check states of a node from their column."""
    stored = load(text)
    if not stored:
        return {}
    newest = (stored["at"], stored["run"])
    return {name: _load(name, row, newest) for name, row in stored["checks"].items()}


def _load(name: str, row: list[Any], newest: tuple[int, str]) -> CheckState:
    at, run = row[3:] or newest
    findings = row[2] if len(row) > 2 else ()
    return CheckState(
        name,
        _STATUSES[row[0]],
        _moment(row[1]),
        _moment(at),
        run,
        tuple(CheckResult(name, _STATUSES[status], *found) for status, *found in findings),
    )


def dump_checks(checks: Mapping[str, CheckState]) -> str:
    """Write the check states of a node for their column."""
    if not checks:
        return "{}"
    newest = max(checks.values(), key=lambda one: one.at)
    stored = {
        "at": to_micros(newest.at),
        "run": newest.run_id,
        "checks": {name: _dump(one, newest) for name, one in checks.items()},
    }
    return dump(stored)


def _dump_finding(one: CheckResult) -> list[Any]:
    said = [one.status, one.device, one.code, one.message]
    return said if one.count is None else [*said, one.count]


def _dump(check: CheckState, newest: CheckState) -> list[Any]:
    row: list[Any] = [check.status, to_micros(check.since)]
    is_of_newest = check.at == newest.at and check.run_id == newest.run_id
    if check.findings or not is_of_newest:
        row.append([_dump_finding(one) for one in check.findings])
    return row if is_of_newest else [*row, to_micros(check.at), check.run_id]
