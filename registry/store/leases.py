# SPDX-License-Identifier: Apache-2.0
"""Who may do the work that only one process may do? Said by a row that runs out, on the database's clock."""

from __future__ import annotations

from dataclasses import dataclass

from registry.store.database import Snapshot, Transaction

_NOW = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000",
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)",
}
"""Microseconds since 1970, by the one clock that all who ask share. Julian day 2440587.5 is that moment:
https://www.sqlite.org/lang_datefunc.html."""

# One statement: it renews our own, takes one that ran out, or one whose end is so far away that the clock was set back.
_TAKE = """INSERT INTO lease (name, holder, token, until_at) VALUES (?, ?, 1, {now} + ?)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until_at = excluded.until_at,
    token = lease.token + CASE WHEN lease.holder = excluded.holder THEN 0 ELSE 1 END
WHERE lease.holder = excluded.holder OR lease.until_at <= {now} OR lease.until_at > excluded.until_at"""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to do some work. `token` is higher for each holder than for the one before."""

    name: str
    holder: str
    token: int


def take_lease(tx: Transaction, name: str, holder: str, seconds: float) -> Lease | None:
    """Take or renew a lease for so many seconds from now; None while somebody else has it."""
    now = _NOW[tx.engine]
    tx.execute(_TAKE.format(now=now), (name, holder, int(seconds * 1_000_000)))
    row = tx.one("SELECT token FROM lease WHERE name = ? AND holder = ?", (name, holder))
    return Lease(name, holder, int(row[0])) if row else None


def is_still_held(tx: Transaction, lease: Lease) -> bool:
    """Return True unless somebody took the lease meanwhile. Nobody can then, until this transaction ends."""
    lock = "" if tx.engine == "sqlite" else " FOR UPDATE"
    row = tx.one(
        f"SELECT 1 FROM lease WHERE name = ? AND holder = ? AND token = ?{lock}",
        (lease.name, lease.holder, lease.token),
    )
    return row is not None


def give_back(tx: Transaction, lease: Lease) -> None:
    """Let the next one begin at once. Does nothing when it was taken already."""
    tx.execute(
        "UPDATE lease SET until_at = 0 WHERE name = ? AND holder = ? AND token = ?",
        (lease.name, lease.holder, lease.token),
    )


def find_holder(snapshot: Snapshot, name: str) -> str | None:
    """Return who has the lease now; None when nobody does."""
    now = _NOW[snapshot.engine]
    row = snapshot.one(f"SELECT holder FROM lease WHERE name = ? AND until_at > {now}", (name,))
    return str(row[0]) if row else None
