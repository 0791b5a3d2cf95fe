# SPDX-License-Identifier: Apache-2.0
"""Does a request have the floor while it is answered, and is its answer sent without it?"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from gunicorn.workers.gthread import ThreadWorker

from registry.admin.worker import Worker, _compute
from registry.store.floor import Floor, let_go


def test_whatever_the_engine_a_request_is_handled_with_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker.__new__(Worker)
    worker.floor = Floor()
    seen: list[bool] = []
    monkeypatch.setattr(ThreadWorker, "handle", lambda self, _: seen.append(self.floor._holder is not None))

    worker.handle(SimpleNamespace(asks=False))

    assert seen == [True]
    assert worker.floor._holder is None


def test_a_request_has_the_floor_until_its_answer_is_ready_and_not_while_it_is_sent() -> None:
    floor = Floor()
    seen = []

    def application(_environ: Any, _start_response: Any) -> Iterator[bytes]:
        seen.append(floor._holder is not None)
        return stream()

    def stream() -> Iterator[bytes]:
        seen.append(floor._holder is not None)
        yield b"piece"

    with floor.held():
        answer = _compute(application, {}, None)
        assert list(answer) == [b"piece"]

    assert seen == [True, False]


def test_a_request_that_fails_gives_the_floor_back() -> None:
    def application(_environ: Any, _start_response: Any) -> Iterator[bytes]:
        raise ZeroDivisionError

    floor = Floor()
    with floor.held(), pytest.raises(ZeroDivisionError):
        _compute(application, {}, None)

    assert floor._holder is None
    assert let_go() is None
