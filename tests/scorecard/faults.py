# SPDX-License-Identifier: Apache-2.0
"""Which faults are put into the service, in the harness alone, to see that the rows find them?"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from registry.services import admission, idempotency, receipts
from registry.store import connections, engines, group

CACHE_SECONDS = 1.0


def put_in(name: str) -> None:
    """Put one fault into this process. Raises KeyError for an unknown one."""
    FAULTS[name]()


def _nothing() -> None:
    """Leave all as it is."""


def _cache_decisions() -> None:
    """Answer a decision again for a second."""
    admission.decide_admission = _cached(admission.decide_admission)


def _cached(real: Callable[..., Any]) -> Callable[..., Any]:
    kept: dict[Any, tuple[float, Any]] = {}

    def decide(db: Any, node: Any, **given: Any) -> Any:
        found = kept.get(node)
        if found is None or time.monotonic() - found[0] > CACHE_SECONDS:
            kept[node] = found = time.monotonic(), real(db, node, **given)
        return found[1]

    return decide


def _relax_commits() -> None:
    """Commit everything as a heartbeat is committed: SQLite's synchronous=NORMAL."""
    real = engines.make_peewee

    def make(url: str, *, is_relaxed: bool = False, is_shared: bool = False) -> Any:
        return real(url, is_relaxed=True, is_shared=is_shared)

    connections.make_peewee = make


def _leave_out_transactions() -> None:
    """Let each statement stand for itself."""
    real = group.run
    group.run = lambda connection, sql: None if "SAVEPOINT" in sql else real(connection, sql)
    begin = connections.Connections.begin

    def begin_nothing(self: connections.Connections, sql: str) -> Any:
        connection = begin(self, sql)
        if sql == "BEGIN IMMEDIATE":
            engines.run(connection, "COMMIT")
        return connection

    commit = connections.Connections.commit

    def commit_nothing(self: connections.Connections, connection: Any) -> None:
        if engines.is_in_transaction(connection):
            commit(self, connection)

    connections.Connections.begin = begin_nothing  # type: ignore[method-assign]
    connections.Connections.commit = commit_nothing  # type: ignore[method-assign]


def _keep_no_answers() -> None:
    """Do again what was done before, for it is not known that it was."""
    idempotency._keep = lambda *_: None
    receipts.find = lambda *_: None


FAULTS: dict[str, Callable[[], None]] = {
    "none": _nothing,
    "a decision cache of one second": _cache_decisions,
    "synchronous=NORMAL": _relax_commits,
    "no transaction": _leave_out_transactions,
    "no answers kept": _keep_no_answers,
}
"""By what is wrong."""
