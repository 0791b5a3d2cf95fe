# SPDX-License-Identifier: Apache-2.0
"""Is a database that cannot answer told as such, also by calls that judge one item after the other?"""

from __future__ import annotations

from typing import Any

import pytest

from registry.domain.errors import StoreUnavailable
from tests.fleet import Fleet, serial


def unavailable(*_: Any, **__: Any) -> Any:
    raise StoreUnavailable("the database cannot answer")


def test_a_failure_is_not_refused_because_the_database_is_away(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.report()
    monkeypatch.setattr("registry.services.failures.record_in", unavailable)

    with pytest.raises(StoreUnavailable):
        fleet.fail("xid_79", device=serial(0))


def test_a_hold_is_not_refused_because_the_database_is_away(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.report()
    monkeypatch.setattr("registry.services.quarantine.resolve", unavailable)

    with pytest.raises(StoreUnavailable):
        fleet.hold({"device": serial(0)})
