# SPDX-License-Identifier: Apache-2.0
"""What does the boot script run on? A machine of text files and tools of our own, and a real server on a socket."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

from api.app import create_app
from api.context import Standing, standing
from registry.admin.demo_hardware import Machine, make_machine, print_gpus
from registry.config import Settings
from registry.domain.actors import Actor, ActorKind
from registry.domain.joining import JoinTerms
from registry.domain.policy_file import parse_policy
from registry.domain.roles import Role
from registry.services import profiles, tokens
from tests.cli.conftest import PEPPER, Quiet
from tests.cli.scripted import Answer
from tests.commands import NVIDIA_SMI
from tests.live.server import POLICY
from tests.project import ROOT

SCRIPT = ROOT / "deploy" / "bootstrap.sh"
PROFILE = "lab-8x"
REQUIRED = ["gpu.count", "gpu.identity", "gpu.ecc", "gpu.row_remap", "gpu.xid"]
SYSTEM = Actor(ActorKind.SYSTEM, "tests")

SHELLS = [shell for shell in ("sh", "dash", "bash", "busybox") if shutil.which(shell)]
NEEDED = (
    "awk",
    "basename",
    "cat",
    "cp",
    "cut",
    "date",
    "dirname",
    "env",
    "grep",
    "head",
    "ls",
    "mkdir",
    "mktemp",
    "mv",
)
"""What every Unix has; the script may use these."""

_numbers = count(1)


def _taken(sent: bytes) -> dict[str, str]:
    found = re.search(rb'name="report_id"\r\n\r\n([^\r]+)\r\n', sent)
    assert found is not None
    return {"report_id": found[1].decode()}


TAKEN = Answer(200, _taken)
"""What a server says of a report that it took, as far as the script reads it."""


@dataclass
class LiveService:
    """A server that needs no gap between passes, told by the real clock."""

    url: str
    standing: Standing

    def token(self, role: Role, node: str | None = None, **terms: Any) -> str:
        """Hand out a token."""
        now = datetime.now(UTC)
        bounds = JoinTerms(**{"pattern": "*", "uses": 9, "expires_at": now + timedelta(hours=1), **terms})
        return tokens.create_token(
            self.standing.database,
            role=role,
            name=node or str(role),
            node=node,
            terms=bounds if role is Role.JOIN else None,
            pepper=PEPPER.encode(),
            actor=SYSTEM,
            now=now,
        )[1]


@pytest.fixture(scope="package")
def service(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    """One server for all: every test has a node and hardware of its own."""
    folder = tmp_path_factory.mktemp("service")
    shutil.copytree(sqlite_template, folder / "database")
    settings = Settings(
        database_url=f"sqlite:///{folder / 'database' / 'registry.db'}",
        data_dir=folder,
        secret_key=PEPPER,
        signing_key="ab" * 32,
        pass_gap_seconds=0,
        policy_as_written=parse_policy(POLICY),
    )
    app = create_app(settings)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    database = standing(app).database
    wanted = {"gpu": {"count": 8}, "efa": {"count": None}, "required_checks": REQUIRED, "per_boot_checks": []}
    profiles.set_profile(database, PROFILE, wanted, actor=SYSTEM, now=datetime.now(UTC))
    yield LiveService(f"http://127.0.0.1:{server.server_port}", standing(app))
    server.shutdown()
    thread.join()
    server.server_close()
    database.close_all()


@dataclass
class Ran:
    """How the script ended."""

    code: int
    out: str
    err: str


@dataclass
class Host:
    """A machine: its files below `root`, its tools in `bin`, and the token of its node."""

    folder: Path
    machine: Machine
    url: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def node(self) -> str:
        """The name that it bears."""
        return self.machine.node

    @property
    def root(self) -> Path:
        """Where its /proc and /sys are."""
        return self.folder / "the root"

    @property
    def token_file(self) -> Path:
        """Where its token is."""
        return self.folder / "a token"

    def write(self, path: str, text: str) -> None:
        """Write a file below the root."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def tool(self, name: str, text: str) -> None:
        """Make a tool of these lines of shell."""
        place = self.folder / "bin" / name
        place.write_text(f"#!/bin/sh\n{text}\n")
        place.chmod(0o755)

    def print(self, document: str) -> None:
        """Let `nvidia-smi` print this document from now on."""
        (self.folder / "bin" / "nvidia-smi.xml").write_text(document)

    def options(self, *more: str) -> list[str]:
        """The options of a usual run."""
        return [
            *("--url", self.url, "--token-file", str(self.token_file), "--root", str(self.root)),
            *("--provider-id", self.machine.provider_id, "--profile", PROFILE, "--gap", "0", *more),
        ]

    def command(self, *arguments: str, shell: str = "sh", script: Path = SCRIPT) -> list[str]:
        """The command line that runs the script."""
        return [
            *{"bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}.get(shell, [shell]),
            str(script),
            *arguments,
        ]

    def run(self, *arguments: str, shell: str = "sh", script: Path = SCRIPT, given: str = "") -> Ran:
        """Run the script with exactly these arguments."""
        done = subprocess.run(
            self.command(*arguments, shell=shell, script=script),
            cwd=self.folder,
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def boot(self, *more: str, shell: str = "sh") -> Ran:
        """Run it as a boot script would, with the usual options and more."""
        return self.run(*self.options(*more), self.node, shell=shell)


@pytest.fixture
def host(service: LiveService, tmp_path: Path) -> Host:
    """A sound machine with eight GPUs, under a name and with hardware that no other test has."""
    number = next(_numbers)
    folder = tmp_path / "a host"
    (folder / "bin").mkdir(parents=True)
    (folder / "t m p").mkdir()
    host = Host(folder, make_machine(f"node-{number}", number), service.url)
    host.environment = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "TMPDIR": str(folder / "t m p")}
    host.write("proc/sys/kernel/random/boot_id", f"{host.machine.boot_id}\n")
    host.print(print_gpus(host.machine, datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)))
    host.tool("nvidia-smi", NVIDIA_SMI.partition("\n")[2])
    host.tool("dmesg", "echo '[    0.000000] Linux version 6.8.0 (builder@example)'")
    (host.root / "sys/bus/pci/devices").mkdir(parents=True)
    host.token_file.write_text(f"{service.token(Role.NODE, host.node)}\n")
    return host


def is_gone(process: int) -> bool:
    """Whether a process has ended; a dead one that nobody has asked after counts as ended."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return True


def error_of(text: str) -> str:
    """The last line that was said."""
    return text.strip().rpartition("\n")[2]


def json_line(text: str) -> Any:
    """Read a line of JSON."""
    return json.loads(text)
