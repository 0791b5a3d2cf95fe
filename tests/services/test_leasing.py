# SPDX-License-Identifier: Apache-2.0
"""Is work that must not be done twice done by one process at a time, and by another when that one is gone or late?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime

import pytest

from registry.services import leasing
from registry.services.leasing import BACKGROUND, Lease, LeaseLost
from registry.store import leases
from registry.store.database import Database, open_database

SHORT = 0.4
"""Seconds of a lease that a test waits for."""

# A holder that is told line by line what to do: "take", then "act", which writes its name under the lease.
HOLDER = """
import sys
from datetime import UTC, datetime
from registry.services import leasing
from registry.store.database import open_database

url, holder, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
db, lease = open_database(url), None
now = datetime(2026, 11, 29, 12, tzinfo=UTC)

def sign():
    with db.write(now) as tx:
        tx.execute("INSERT INTO profile (name, body, updated_at) VALUES (?, ?, 0)", (holder, "{}"))

for line in sys.stdin:
    if line.strip() == "take":
        lease = leasing.take(db, "background", holder, now=now, seconds=seconds)
        print("taken" if lease else "refused", flush=True)
    else:
        try:
            leasing.under(db, lease, sign, now=now)
            print("done", flush=True)
        except leasing.LeaseLost:
            print("lost", flush=True)
"""


# Takes and acts as fast as it can. The name of each act is its place in the order of the commits.
ACTING_ON_AND_ON = """
import sys, time
from datetime import UTC, datetime
from registry.domain.errors import StoreUnavailable
from registry.services import leasing
from registry.store.database import open_database

url, holder = sys.argv[1:]
db, now = open_database(url), datetime(2026, 11, 29, 12, tzinfo=UTC)
while True:
    try:
        lease = leasing.take(db, "background", holder, now=now, seconds=0.2)
        time.sleep(0.01)
        if lease is None:
            continue

        def act():
            with db.write(now) as tx:
                (count,) = tx.one("SELECT count(*) FROM profile")
                tx.execute(
                    "INSERT INTO profile (name, body, updated_at) VALUES (?, ?, ?)",
                    (f"{count:09d}", holder, lease.token),
                )

        leasing.under(db, lease, act, now=now)
    except (leasing.LeaseLost, StoreUnavailable):
        pass
"""


@contextmanager
def process(db: Database, holder: str, seconds: float = SHORT) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that can be stopped in its tracks."""
    command = [sys.executable, "-c", HOLDER, db.url, holder, str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def tell(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def signed(db: Database) -> list[str]:
    """Who did the work."""
    with db.read() as snapshot:
        return sorted(name for (name,) in snapshot.all("SELECT name FROM profile"))


def take(db: Database, holder: str, now: datetime, seconds: float = 60.0) -> Lease | None:
    return leasing.take(db, BACKGROUND, holder, now=now, seconds=seconds)


def test_one_has_it_and_renews_it_and_another_does_not(db: Database, now: datetime) -> None:
    assert take(db, "a", now) == Lease(BACKGROUND, "a", 1)
    assert take(db, "b", now) is None
    assert take(db, "a", now) == Lease(BACKGROUND, "a", 1)
    assert leasing.take(db, "other work", "b", now=now) == Lease("other work", "b", 1)
    with db.read() as snapshot:
        assert leases.find_holder(snapshot, BACKGROUND) == "a"
        assert leases.find_holder(snapshot, "nothing") is None


def test_one_that_ran_out_is_taken_and_its_token_grows(db: Database, now: datetime) -> None:
    assert take(db, "a", now, SHORT)
    time.sleep(SHORT + 0.05)

    assert take(db, "b", now) == Lease(BACKGROUND, "b", 2)


def test_it_can_be_given_back_at_once_and_only_by_whoever_has_it(db: Database, now: datetime) -> None:
    first = take(db, "a", now)
    assert first is not None
    leasing.give_back(db, first, now=now)
    second = take(db, "b", now)
    leasing.give_back(db, first, now=now)

    assert second == Lease(BACKGROUND, "b", 2)
    assert take(db, "c", now) is None


def test_a_clock_that_was_set_back_keeps_nobody_from_taking_over(db: Database, now: datetime) -> None:
    """The lease seems to last for another ten years."""
    assert take(db, "a", now, 10 * 365 * 86400)

    assert take(db, "b", now) == Lease(BACKGROUND, "b", 2)


def test_the_late_holder_changes_nothing(db: Database, now: datetime) -> None:
    late = take(db, "a", now, SHORT)
    assert late is not None
    time.sleep(SHORT + 0.05)
    assert take(db, "b", now)
    done: list[str] = []

    with pytest.raises(LeaseLost):
        leasing.under(db, late, lambda: done.append("a"), now=now)

    assert done == []


def test_one_that_ran_out_and_that_nobody_took_is_still_good(db: Database, now: datetime) -> None:
    held = take(db, "a", now, SHORT)
    assert held is not None
    time.sleep(SHORT + 0.05)
    done: list[str] = []

    leasing.under(db, held, lambda: done.append("a"), now=now)

    assert done == ["a"]


def test_it_does_not_pass_on_in_the_middle_of_the_work(db: Database, now: datetime) -> None:
    """Whoever wants it meanwhile has it only when the work is there for all to see."""
    held = take(db, "a", now, SHORT)
    assert held is not None
    began, other = threading.Event(), open_database(db.url)
    seen: list[list[str]] = []

    def work() -> None:
        began.set()
        time.sleep(2 * SHORT)
        with db.write(now) as tx:
            tx.execute("INSERT INTO profile (name, body, updated_at) VALUES ('a', '{}', 0)")

    def take_over() -> None:
        began.wait()
        while take(other, "b", now) is None:
            time.sleep(0.02)
        seen.append(signed(other))
        other.close()

    waiting = threading.Thread(target=take_over)
    waiting.start()
    leasing.under(db, held, work, now=now)
    waiting.join(10)

    assert seen == [["a"]]


def test_of_many_who_want_it_at_once_one_gets_it(db: Database, now: datetime) -> None:
    together = threading.Barrier(8)

    def want(number: int) -> Lease | None:
        together.wait()
        try:
            return take(db, f"holder-{number}", now)
        finally:
            db.close()

    with ThreadPoolExecutor(8) as pool:
        found = [lease for lease in pool.map(want, range(8)) if lease is not None]

    assert len(found) == 1


@pytest.mark.slow
def test_a_process_that_was_stopped_beyond_its_lease_does_not_act_when_it_goes_on(db: Database) -> None:
    with process(db, "late") as late, process(db, "next") as next_:
        assert tell(late, "take") == "taken"
        os.kill(late.pid, signal.SIGSTOP)
        time.sleep(SHORT + 0.1)
        assert tell(next_, "take") == "taken"
        os.kill(late.pid, signal.SIGCONT)

        told = tell(late, "act")
        assert (told, tell(next_, "act")) == ("lost", "done")

    assert signed(db) == ["next"]


@pytest.mark.slow
def test_stopped_and_killed_at_any_time_they_never_act_with_a_token_older_than_the_last(db: Database) -> None:
    """Each act notes its token in the order of the commits; the order never turns back."""
    command = [sys.executable, "-c", ACTING_ON_AND_ON, db.url]
    running = [subprocess.Popen([*command, f"holder-{number}"]) for number in range(3)]
    try:
        for turn in range(12):
            victim = running[turn % 3]
            time.sleep(0.15)
            os.kill(victim.pid, signal.SIGSTOP)
            time.sleep(0.35)
            os.kill(victim.pid, signal.SIGCONT)
    finally:
        for one in running:
            with suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGCONT)
            one.kill()
            one.wait()

    with db.read() as snapshot:
        tokens = [token for (token,) in snapshot.all("SELECT updated_at FROM profile ORDER BY name")]
    assert tokens == sorted(tokens)
    assert len(set(tokens)) > 2
