# SPDX-License-Identifier: Apache-2.0
"""Was this already done? A change that is asked for again under one key is answered again, not made again."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from registry.domain.errors import IdempotencyInProgress, IdempotencyKeyReused
from registry.store import idempotency as store
from registry.store.database import Database, Transaction

KEPT = timedelta(hours=24)
"""How long an answer is repeated: longer than anybody retries, short enough to forget."""

Answer: TypeAlias = tuple[int, dict[str, Any]]
"""A status, and a body that JSON can hold."""

_running: set[tuple[str, ...]] = set()
_guard = threading.Lock()


def run_once(
    db: Database,
    *,
    token_id: str,
    route: str,
    key: str,
    digest: str,
    now: datetime,
    work: Callable[[], Answer],
) -> tuple[int, dict[str, Any], bool]:
    """Do `work` in the transaction that also keeps its answer; return status, body, and whether it is a repetition.

    What `work` raises leaves nothing behind, so that the key may be tried again. Raises IdempotencyKeyReused when the
    key came with another digest, and IdempotencyInProgress while this process is still at it; a request that reaches
    another process waits there for its turn and gets the first answer.
    """
    asked = _Asked(token_id, route, key, digest)
    with _alone((db.url, token_id, route, key)), db.write(now) as transaction:
        known = _known(transaction, asked)
        if known is not None:
            return known
        status, body = work()
        _keep(transaction, asked, status, body)
    return status, body, False


def run_in_parts(
    db: Database, *, token_id: str, route: str, key: str, digest: str, now: datetime, work: Callable[[], Answer]
) -> tuple[int, dict[str, Any], bool]:
    """Do `work` that takes many transactions and may be repeated, and keep its answer in one more at its end.

    What broke off before that has no answer kept and is done again, as without a key. Where two processes did it at
    once, both answer what was kept first. Raises as `run_once` does.
    """
    asked = _Asked(token_id, route, key, digest)
    with _alone((db.url, token_id, route, key)):
        with db.write(now) as transaction:
            known = _known(transaction, asked)
        if known is not None:
            return known
        status, body = work()
        with db.write(now) as transaction:
            known = _known(transaction, asked)
            if known is None:
                _keep(transaction, asked, status, body)
    return known or (status, body, False)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What stands for a request that carries a key."""

    token_id: str
    route: str
    key: str
    digest: str


def _known(transaction: Transaction, asked: _Asked) -> tuple[int, dict[str, Any], bool] | None:
    """Return what was answered before, as a repetition. Raises IdempotencyKeyReused."""
    store.delete_older(transaction, transaction.now - KEPT)
    known = store.find_answer(transaction, asked.token_id, asked.route, asked.key)
    if known is None:
        return None
    if known.digest != asked.digest:
        raise IdempotencyKeyReused(f"the idempotency key {asked.key} was used for another request: take a new one")
    return known.status, json.loads(known.body), True


def _keep(transaction: Transaction, asked: _Asked, status: int, body: dict[str, Any]) -> None:
    text = json.dumps(body, ensure_ascii=False, allow_nan=False)
    answer = store.StoredAnswer(asked.digest, status, text)
    store.insert_answer(transaction, asked.token_id, asked.route, asked.key, answer)


@contextmanager
def _alone(what: tuple[str, ...]) -> Iterator[None]:
    with _guard:
        if what in _running:
            raise IdempotencyInProgress("the first request with this idempotency key is still running: ask again soon")
        _running.add(what)
    try:
        yield
    finally:
        with _guard:
            _running.discard(what)
