# SPDX-License-Identifier: Apache-2.0
"""Was this already done? A change that is asked for again under one key is answered again, not made again."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from registry.domain.errors import IdempotencyInProgress, IdempotencyKeyReused
from registry.store import idempotency as store
from registry.store.database import Database

KEPT = timedelta(hours=24)
"""How long an answer is repeated: longer than anybody retries, short enough to forget."""

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
    work: Callable[[], tuple[int, dict[str, Any]]],
) -> tuple[int, dict[str, Any], bool]:
    """Do `work` in the transaction that also keeps its answer; return status, body, and whether it is a repetition.

    What `work` raises leaves nothing behind, so that the key may be tried again. Raises IdempotencyKeyReused when the
    key came with another digest, and IdempotencyInProgress while this process is still at it; a request that reaches
    another process waits there for its turn and gets the first answer.
    """
    with _alone((db.url, token_id, route, key)), db.write(now) as transaction:
        store.delete_older(transaction, now - KEPT)
        known = store.find_answer(transaction, token_id, route, key)
        if known is not None and known.digest != digest:
            raise IdempotencyKeyReused(f"the idempotency key {key} was used for another request: take a new one")
        if known is not None:
            return known.status, json.loads(known.body), True
        status, body = work()
        text = json.dumps(body, ensure_ascii=False, allow_nan=False)
        store.insert_answer(transaction, token_id, route, key, store.StoredAnswer(digest, status, text))
    return status, body, False


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
