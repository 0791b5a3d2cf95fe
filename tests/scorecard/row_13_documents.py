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
from schemathesis.core.failures import Failure

from registry.domain.roles import Role
from tests.api.conftest import Asker
from tests.api.on_record import records
from tests.api.test_fuzz import ask_much, operations
from tests.scorecard.application import Application, application
from tests.scorecard.measured import Measured, Progress

OUTSIDE = "operations with an answer outside of the document"


def run(n: int, seed: int, engine: str, progress: Progress) -> Measured:
    """Send `n` requests, an equal share to each operation. Which one fails, and how, is named in what was seen."""
    wrong: Counter[str] = Counter({OUTSIDE: 0})
    seen: Counter[str] = Counter()
    tried = operations()
    with application(engine) as house:
        house.app.testing = False
        admin = house.asker(house.secret(Role.ADMIN))
        node = house.asker(house.secret(Role.NODE, node="node-a"))
        known = records(house.app, admin, node, house.clock, house.secret)
        _count_answers(house, seen)
        for at, (path, method) in enumerate(tried):
            share = n * (at + 1) // len(tried) - n * at // len(tried)
            if share == 0:
                continue
            with patch.object(core, "global_force_seed", seed * 1000 + at):
                fault = _fault(house, admin, known, (path, method), share)
            if fault is not None:
                wrong[OUTSIDE] += 1
                seen[f"{method} {path}: {fault}"] += 1
            seen["operations"] += 1
            progress(share)
    return Measured(n, wrong, seen)


def _count_answers(house: Application, seen: Counter[str]) -> None:
    """Count answers by their class: a row whose requests are all refused at the door says nothing of the document."""
    answered = house.app.wsgi_app

    def counting(environ: dict[str, Any], start: Any) -> Any:
        def begun(status: str, *more: Any) -> Any:
            seen["answers 401" if status.startswith("401") else f"answers {status[0]}xx"] += 1
            return start(status, *more)

        return answered(environ, begun)

    house.app.wsgi_app = counting  # type: ignore[method-assign]  # as Flask's own documentation does


def _fault(house: Application, admin: Asker, known: dict[str, str], asked: tuple[str, str], cases: int) -> str | None:
    """Send requests to one operation. Say what breaks the document; it is printed whole, so that it can be sent again.

    None where nothing does.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ask_much(house.app, admin, known, asked, cases)
    except (AssertionError, BaseExceptionGroup) as error:
        traceback.print_exc(file=sys.stderr)
        return told(error)
    return None


def told(error: BaseException) -> str:
    """Name what went wrong in a few words."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(told(one) for one in error.exceptions))
    return error.title if isinstance(error, Failure) else "error that is no problem document"
