# SPDX-License-Identifier: Apache-2.0
"""What do the live tests speak to? `pratique serve` with four workers, as it is in use, and callers with tokens."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import requests

from registry.admin.ground import SYSTEM, open_ready
from registry.config import Settings
from registry.domain.roles import Role
from registry.services import keys, tokens

WORKERS = 4
START_SECONDS = 60.0
POLICY = """\
[thresholds]
breaker_fleet_percent = 100
breaker_profile_percent = 100
breaker_zone_percent = 100
breaker_limit_min = 1000
breaker_permanent_min = 1000
"""
"""All tests share one server and one small fleet, in which the breaker would see an outage."""
TIMEOUT_SECONDS = 60.0
PASS_GAP_SECONDS = 0
"""The tests' rounds follow one another at once."""

LISTENING = "listening on "
_names = itertools.count(1)


class Caller:
    """Somebody with a token. Threads may share it: each keeps a connection, and so a worker, of its own."""

    def __init__(self, server: LiveServer, token: str, name: str) -> None:
        self.server = server
        self.token = token
        self.name = name
        self._own = threading.local()

    def ask(self, method: str, path: str, *, fresh: bool = False, **given: Any) -> requests.Response:
        """Ask; with `fresh` on a connection of its own, which any of the workers may take."""
        headers = {"Authorization": f"Bearer {self.token}", **given.pop("headers", {})}
        url = self.server.url + path
        if fresh:
            return requests.request(method, url, headers=headers, timeout=TIMEOUT_SECONDS, **given)
        if getattr(self._own, "session", None) is None:
            self._own.session = requests.Session()
        answer: requests.Response = self._own.session.request(
            method, url, headers=headers, timeout=TIMEOUT_SECONDS, **given
        )
        return answer

    def get(self, path: str, **given: Any) -> Any:
        """Return the document at an address, which must be there."""
        answer = self.ask("GET", path, **given)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any, **given: Any) -> requests.Response:
        """Send a document."""
        return self.ask("POST", path, json=body, **given)

    def close(self) -> None:
        """Close the connection of this thread."""
        session = getattr(self._own, "session", None)
        if session is not None:
            session.close()
            self._own.session = None


class LiveServer:
    """A server on a migrated database. `start` may follow `kill`: it takes another port then."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder = folder
        policy = folder / "policy.toml"
        policy.write_text(POLICY)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PRATIQUE_")}
        own = {
            "PRATIQUE_DATA_DIR": str(folder),
            "PRATIQUE_POLICY_FILE": str(policy),
            "PRATIQUE_DATABASE_URL": database_url,
            "PRATIQUE_PASS_GAP_SECONDS": str(PASS_GAP_SECONDS),
            "PRATIQUE_SECRET_KEY": "5" * 64,
            "PRATIQUE_SIGNING_KEY": "a" * 64,
        }
        self.settings = Settings.from_env(own)
        self.environment = {**inherited, **own}
        self.module = "registry.main"
        self.url = ""
        self.process: subprocess.Popen[bytes] | None = None
        with open_ready(self.settings) as db:
            token = tokens.create_token(
                db,
                role=Role.ADMIN,
                name="root",
                pepper=keys.load_pepper(self.settings),
                actor=SYSTEM,
                now=datetime.now(UTC),
            )[1]
        self.admin = Caller(self, token, "root")

    @property
    def engine(self) -> str:
        """The name of the database engine."""
        return "postgresql" if self.settings.is_postgresql else "sqlite"

    def start(self, bind: str = "127.0.0.1:0") -> None:
        """Start it and wait until it listens. Raises AssertionError with its log."""
        command = [sys.executable, "-m", self.module, "serve", "--bind", bind, "--workers", str(WORKERS)]
        out = self.folder / "server.out"
        with out.open("wb") as stdout, (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=log,
                start_new_session=True,  # a process group of its own, which dies at one blow
            )
        deadline = time.monotonic() + START_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            said = out.read_text()
            if said.startswith(LISTENING) and said.endswith("\n"):
                self.url = said.removeprefix(LISTENING).strip()
                return
            time.sleep(0.02)
        self.kill()
        raise AssertionError(f"the server did not start:\n{self.log()}")

    def kill(self) -> None:
        """End all its processes with one `kill -9`, whatever they are doing."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def workers(self) -> list[int]:
        """The process ids of the workers that are there now."""
        assert self.process is not None
        found = []
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, parent = status.read_text().rpartition(")")[2].split()[:2]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if state != "Z" and parent == str(self.process.pid):
                found.append(int(status.parent.name))
        return sorted(found)

    def all_workers(self) -> list[int]:
        """The process ids of its workers, once every one of them is there: they are started one after the other."""
        deadline = time.monotonic() + START_SECONDS
        while len(found := self.workers()) != WORKERS:
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)
        return found

    @contextmanager
    def only(self, worker: int) -> Iterator[None]:
        """Let nobody but this worker answer, for requests that write nothing: the others stand still."""
        others = [one for one in self.workers() if one != worker]
        for one in others:
            os.kill(one, signal.SIGSTOP)
        try:
            yield
        finally:
            for one in others:
                os.kill(one, signal.SIGCONT)

    def log(self) -> str:
        """What it wrote to standard error."""
        return (self.folder / "server.log").read_text(errors="replace")

    def caller(self, role: str, name: str | None = None) -> Caller:
        """Hand out a token over HTTP; one of role node is for the node of that name."""
        called = name or f"{role}-{next(_names)}"
        body = {"role": role, "name": called, **({"node": called} if role == "node" else {})}
        answer = self.admin.post("/v1/tokens", body)
        assert answer.status_code == 201, answer.text
        return Caller(self, answer.json()["token"], called)
