# SPDX-License-Identifier: Apache-2.0
"""How do many callers ask at the same moment? Threads here, and threads in other processes, let go together."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import requests

from tests.racing import together

PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """One POST as another process can make it."""

    url: str
    token: str
    body: Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    body: Any


def post(request: Request) -> Answer:
    """Make one request on a connection of its own."""
    headers = {"Authorization": f"Bearer {request.token}"}
    answer = requests.post(request.url, json=request.body, headers=headers, timeout=PATIENCE_SECONDS)
    return Answer(answer.status_code, answer.json())


def post_together(requests_: Sequence[Request]) -> list[Answer]:
    """Make requests at once from the threads of this process."""
    return together(*(lambda one=one: post(one) for one in requests_))


def post_from_processes(requests_: Sequence[Request], *, processes: int = 2) -> list[Answer]:
    """Make requests at once from threads of several processes, which wait for one another."""
    # Forking beside the threads of a test run can hang.
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(processes)
    with ProcessPoolExecutor(
        processes, mp_context=context, initializer=gate.wait, initargs=(PATIENCE_SECONDS,)
    ) as pool:
        parts = [requests_[start::processes] for start in range(processes)]
        return [answer for part in pool.map(post_together, parts) for answer in part]
