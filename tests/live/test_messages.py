# SPDX-License-Identifier: Apache-2.0
"""Does everything that was acknowledged get told, although servers are killed and receivers go away in between?"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from registry.store.database import open_database
from tests.live.server import Caller, LiveServer
from tests.postgres import Server
from tests.receiver import Message, Receiver

LONG_SECONDS = 60.0


def make_server(folder: Path, url: str) -> LiveServer:
    """A server that may send to this machine."""
    folder.mkdir(exist_ok=True)
    server = LiveServer(folder, url)
    server.environment["PRATIQUE_ALLOW_PRIVATE_SINKS"] = "127.0.0.0/8"
    return server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A freshly migrated database, on either engine."""
    if request.param == "sqlite":
        shutil.copytree(request.getfixturevalue("sqlite_template"), tmp_path / "database")
        yield f"sqlite:///{tmp_path / 'database' / 'registry.db'}"
        return
    yield from on_postgresql(request)


def on_postgresql(request: pytest.FixtureRequest) -> Iterator[str]:
    cluster: Server = request.getfixturevalue("postgres")
    name = f"messages_{uuid.uuid4().hex}"
    yield cluster.create_database(name, template=request.getfixturevalue("postgres_template"))
    cluster.drop_database(name)


@pytest.fixture
def shared_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database that several servers may share."""
    yield from on_postgresql(request)


def until(is_so: Callable[[], bool], server: LiveServer) -> None:
    end = time.monotonic() + LONG_SECONDS
    while not is_so():
        assert time.monotonic() < end, server.log()[-3000:]
        time.sleep(0.05)


def subscribe(admin: Caller, receiver: Receiver, **more: Any) -> str:
    answer = admin.post("/v1/webhooks", {"url": receiver.url, "types": ["quarantine.*"], **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def hold_and_release(admin: Caller, numbers: range) -> None:
    """Two events about each of these serials, one after the other."""
    for number in numbers:
        target = {"identifier": {"kind": "gpu", "type": "serial", "value": f"{1650000000000 + number}"}}
        held = admin.post("/v1/quarantines", {"targets": [target], "reason": "x"})
        assert held.status_code == 201, held.text
        hold = held.json()["items"][0]["quarantine"]["id"]
        assert admin.post(f"/v1/quarantines/{hold}/release", {"reason": "y"}).status_code == 200


def holds_of(admin: Caller) -> list[int]:
    """The sequences of all events about holds."""
    return [one["sequence"] for one in admin.get("/v1/events?limit=1000")["items"] if one["type"].startswith("quara")]


def sequences(messages: list[Message]) -> list[int]:
    return [int(one.document["sequence"]) for one in messages]


def take_lease_away(url: str) -> None:
    """Spare the test the half minute until the lease of a killed process runs out."""
    database = open_database(url)
    with database.write(datetime.now(UTC)) as tx:
        tx.execute("UPDATE lease SET until_at = 0")
    database.close_all()


def test_a_server_that_is_killed_while_it_tells_loses_nothing(url: str, tmp_path: Path) -> None:
    server, receiver = make_server(tmp_path / "one", url), Receiver()

    def slowly(_: Message) -> tuple[int, dict[str, str]]:
        time.sleep(0.03)
        return 204, {}

    receiver.judge = slowly
    server.start()
    try:
        subscribe(server.admin, receiver)
        hold_and_release(server.admin, range(30))
        until(lambda: len(receiver.taken) > 10, server)
        server.kill()
        port = receiver.port
        receiver.close()
        told = list(receiver.taken)
        take_lease_away(url)

        server.start()
        hold_and_release(server.admin, range(30, 35))
        time.sleep(2)
        receiver = Receiver(port=port)
        expected = holds_of(server.admin)
        until(lambda: set(sequences([*told, *receiver.taken])) >= set(expected), server)
    finally:
        server.kill()
        receiver.close()

    everything = [*told, *receiver.taken]
    assert len(expected) == 70
    assert set(sequences(everything)) == set(expected)
    assert len(everything) <= len(expected) + 50, "only what one turn had sent comes twice"
    ids = {(int(one.document["sequence"]), one.headers["webhook-id"]) for one in everything}
    assert len(ids) == len(expected), "the same event has the same id"
    firsts = list(dict.fromkeys(sequences(everything)))
    subject = {int(one.document["sequence"]): one.document["subject"] for one in everything}
    for one in set(subject.values()):
        own = [sequence for sequence in firsts if subject[sequence] == one]
        assert own == sorted(own), "in the order of each hold"


def test_two_servers_tell_once_and_the_other_goes_on_when_one_is_killed(shared_url: str, tmp_path: Path) -> None:
    servers = [make_server(tmp_path / name, shared_url) for name in ("one", "two")]
    receiver = Receiver()
    for server in servers:
        server.start()
    try:
        subscribe(servers[0].admin, receiver)
        hold_and_release(servers[0].admin, range(10))
        hold_and_release(servers[1].admin, range(10, 20))
        until(lambda: len(receiver.taken) >= 40, servers[0])
        time.sleep(2)
        assert sequences(receiver.taken) == holds_of(servers[1].admin), "each once, in order"

        servers[0].kill()
        take_lease_away(shared_url)
        hold_and_release(servers[1].admin, range(20, 25))
        until(lambda: set(sequences(receiver.taken)) == set(holds_of(servers[1].admin)), servers[1])
    finally:
        for server in servers:
            with suppress(ProcessLookupError):  # one is gone already
                server.kill()
        receiver.close()
