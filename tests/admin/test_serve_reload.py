# SPDX-License-Identifier: Apache-2.0
"""Does a server take a new certificate, policy and set of processes without dropping a single request?"""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from registry.admin.demo_server import RunningServer, Stage, start_server
from registry.services.leasing import BACKGROUND
from registry.store.database import open_database
from registry.store.leases import find_holder
from registry.store.serving import ServingLock

pytestmark = pytest.mark.slow

RELOADS = 3
CLIENTS = 6
PATIENCE_SECONDS = 30.0


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.set_up(tmp_path)


@contextmanager
def running(stage: Stage, *options: str) -> Iterator[RunningServer]:
    server = start_server(stage, *options)
    try:
        yield server
    finally:
        server.stop()


def workers(server: RunningServer) -> set[int]:
    """The process ids of the workers that are there now."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z" and parent == str(server.process.pid):
            found.add(int(stat.parent.name))
    return found


def reload(server: RunningServer) -> None:
    """Send SIGHUP and wait until every process is a new one."""
    old = workers(server)
    server.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while workers(server) & old or len(workers(server)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@dataclass
class Loops:
    """Clients that ask on and on, never twice for the same answer. Each says how often it was answered."""

    url: str
    over: threading.Event = field(default_factory=threading.Event)

    def kept(self) -> int:
        """Ask on one connection as long as the server keeps it, as HTTP/1.1 has it."""
        count, connection = 0, None
        while not self.over.is_set():
            connection = connection or http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=20)
            connection.request("GET", "/health/live")
            answer = connection.getresponse()
            assert answer.status == 200
            answer.read()
            count += 1
            if answer.will_close:
                connection.close()
                connection = None
            time.sleep(0.002)
        if connection is not None:
            connection.close()
        return count

    def fresh(self) -> int:
        """Ask each time on a new connection."""
        count = 0
        while not self.over.is_set():
            connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=20)
            connection.request("GET", "/health/live")
            assert connection.getresponse().status == 200
            connection.close()
            count += 1
        return count


def test_no_request_is_dropped_while_the_processes_are_replaced(stage: Stage) -> None:
    with running(stage) as server, ThreadPoolExecutor(CLIENTS) as pool:
        loops = Loops(server.url)
        asking: list[Future[int]] = [
            pool.submit(loops.kept if number % 2 else loops.fresh) for number in range(CLIENTS)
        ]
        try:
            for _ in range(RELOADS):
                time.sleep(0.3)
                reload(server)
            time.sleep(0.3)
        finally:
            loops.over.set()
        counts = [one.result() for one in asking]

    assert min(counts) > 20, counts


def make_certificate(folder: Path, name: str) -> None:
    subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1"]
    out = ["-keyout", str(folder / "server.key"), "-out", str(folder / "server.crt")]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *out, *subject], check=True, capture_output=True
    )


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificates")
def test_a_new_certificate_is_shown_after_a_reload(stage: Stage, tmp_path: Path) -> None:
    make_certificate(tmp_path, "first")
    files = ("--tls-cert", str(tmp_path / "server.crt"), "--tls-key", str(tmp_path / "server.key"))
    with running(stage, *files) as server:
        address = server.url.removeprefix("https://").split(":")
        before = ssl.get_server_certificate((address[0], int(address[1])))
        make_certificate(tmp_path, "second")

        reload(server)
        after = ssl.get_server_certificate((address[0], int(address[1])))

    assert after == (tmp_path / "server.crt").read_text()
    assert before != after


def test_the_policy_file_is_read_again_and_a_bad_one_changes_nothing(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text("[thresholds]\npass_count = 3\n")
    token = stage.make_tokens(nodes=())["operator"]
    aware = replace(stage, environment={**stage.environment, "PRATIQUE_POLICY_FILE": str(file)})
    with running(aware) as server:

        def pass_count() -> int:
            headers = {"Authorization": f"Bearer {token}"}
            answer = requests.get(f"{server.url}/v1/policy", headers=headers, timeout=20)
            found: int = answer.json()["pass_count"]
            return found

        assert pass_count() == 3
        file.write_text("[thresholds]\npass_count = 5\n")
        reload(server)
        assert pass_count() == 5
        file.write_text("[thresholds]\npass_count = many\n")
        reload(server)
        assert pass_count() == 5
        log = (stage.folder / "server.log").read_text()

    assert "what was set before is kept" in log


def test_the_background_work_passes_on_at_once(stage: Stage) -> None:
    """A process that ends well gives the lease back: nobody waits for its end."""
    with running(stage) as server:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while holder(stage) is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        first = holder(stage)
        reload(server)
        deadline = time.monotonic() + 15
        while holder(stage) in {first, None}:
            assert time.monotonic() < deadline, "nobody took over"
            time.sleep(0.05)


def holder(stage: Stage) -> str | None:
    db = open_database(stage.settings.database_url)
    with db.read() as snapshot:
        found = find_holder(snapshot, BACKGROUND)
    db.close_all()
    return found


def test_a_killed_server_keeps_its_database_from_being_replaced_until_its_last_process_is_gone(stage: Stage) -> None:
    path = Path(stage.settings.database_url.removeprefix("sqlite:///"))
    with running(stage) as server:
        left = workers(server)
        for one in left:
            os.kill(one, signal.SIGSTOP)
        server.process.kill()
        server.process.wait()
        alone = ServingLock(path)
        assert not alone.take(is_shared=False)
        for one in left:
            os.kill(one, signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not alone.take(is_shared=False):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        alone.let_go()
