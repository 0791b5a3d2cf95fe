# SPDX-License-Identifier: Apache-2.0
"""Row 13: whatever is sent, does the service answer as its own document says, and never with a fault of its own?"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections import Counter
from typing import Any
from unittest.mock import patch

from hypothesis import core

from registry.domain.roles import Role
from tests.api.conftest import Asker
from tests.api.test_fuzz import ask_much, operations
from tests.api.v1.fleet import SERIALS, admit
from tests.scorecard.application import Application, application
from tests.scorecard.measured import Measured, Progress


def run(n: int, seed: int, engine: str, progress: Progress) -> Measured:
    """Send `n` requests, an equal share to each operation."""
    wrong: Counter[str] = Counter({"operations with an answer outside of the document": 0})
    seen: Counter[str] = Counter()
    tried = operations()
    with application(engine) as house:
        house.app.testing = False
        admin = house.asker(house.secret(Role.ADMIN))
        node = house.asker(house.secret(Role.NODE, node="node-a"))
        admit(admin, node, house.clock)
        known = _names(house, admin)
        answered = house.app.wsgi_app

        def counting(environ: dict[str, Any], start: Any) -> Any:
            seen["requests"] += 1
            return answered(environ, start)

        house.app.wsgi_app = counting  # type: ignore[method-assign]  # as Flask's own documentation does
        for at, (path, method) in enumerate(tried):
            share = n * (at + 1) // len(tried) - n * at // len(tried)
            if share == 0:
                continue
            with patch.object(core, "global_force_seed", seed * 1000 + at):
                wrong["operations with an answer outside of the document"] += not _keeps(
                    house, admin, known, (path, method), share
                )
            seen["operations"] += 1
            progress(share)
    return Measured(n, wrong, seen)


def _keeps(house: Application, admin: Asker, known: dict[str, str], asked: tuple[str, str], cases: int) -> bool:
    """Send requests to one operation; what breaks the document is printed, so that it can be sent again."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ask_much(house.app, admin, known, asked, cases)
    except (AssertionError, BaseExceptionGroup):
        traceback.print_exc(file=sys.stderr)
        return False
    return True


def _names(house: Application, admin: Asker) -> dict[str, str]:
    """Records of every sort, and what they are called in addresses."""
    house.secret(Role.AUDITOR, name="spare")
    fault = {"failure_id": "f-1", "device": SERIALS[0], "code": "xid_79", "occurred_at": "2026-11-29T12:00:00Z"}
    return {
        "node": "node-a",
        "ref": SERIALS[1],
        "name": "tiny",
        "failure": admin.post("/v1/failures", json=fault).json["items"][0]["failure"]["id"],
        "quarantine_id": admin.get("/v1/quarantines").json["items"][0]["id"],
        "token": admin.get("/v1/tokens").json["items"][0]["id"],
        "file": "page.js",
    }
