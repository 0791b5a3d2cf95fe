# SPDX-License-Identifier: Apache-2.0
"""How does work that must not be done twice get done by one of many processes, and by another when that one is gone?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from registry.store import leases
from registry.store.database import Database, Overtaken
from registry.store.leases import Lease

__all__ = ["BACKGROUND", "LEASE_SECONDS", "Lease", "LeaseLost", "give_back", "take", "under"]

BACKGROUND = "background"
"""What the server processes do between requests."""

LEASE_SECONDS = 30.0
"""How long a process may be silent before another takes over: three of the rounds in which it is renewed."""


class LeaseLost(Exception):
    """Somebody else has the lease by now. Nothing was done."""


def take(db: Database, name: str, holder: str, *, now: datetime, seconds: float = LEASE_SECONDS) -> Lease | None:
    """Take or renew the lease for `holder`, a text that nobody else uses; None while another process has it.

    What is held may be lost at any time afterwards: `under` asks again where it matters. `now` is not what its length
    is measured by, that is the database's own clock.
    """
    try:
        with db.touch(now) as tx:
            return leases.take_lease(tx, name, holder, seconds)
    except Overtaken:
        return None  # at the same moment another was faster


def under(db: Database, lease: Lease, work: Callable[[], None], *, now: datetime) -> None:
    """Do work in one transaction in which the lease cannot pass to anybody else.

    Whatever the process slept through, a holder that is late changes nothing. Raises LeaseLost then, and what the work
    raises.
    """
    with db.write(now) as tx:
        if not leases.is_still_held(tx, lease):
            raise LeaseLost(lease.name)
        work()


def give_back(db: Database, lease: Lease, *, now: datetime) -> None:
    """Let another process begin at once."""
    try:
        with db.touch(now) as tx:
            leases.give_back(tx, lease)
    except Overtaken:
        return  # somebody took it
