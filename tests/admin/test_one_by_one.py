# SPDX-License-Identifier: Apache-2.0
"""Which servers let one request compute at a time, and is an answer sent without the floor?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from registry.admin.serve import fixed_settings
from registry.admin.worker import OneByOne, Worker, _compute
from registry.store.floor import Floor, let_go


@pytest.mark.parametrize(("engine", "kind"), [("sqlite", OneByOne), ("postgresql", Worker)])
def test_only_the_engine_that_computes_in_the_same_process_has_a_floor(engine: str, kind: type[Worker]) -> None:
    assert fixed_settings(engine)["worker_class"] is kind


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
