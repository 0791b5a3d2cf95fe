# SPDX-License-Identifier: Apache-2.0
"""How are commands tried? The real command against the real application, over a socket, with no gap between passes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from werkzeug.serving import WSGIRequestHandler, make_server

from api.app import create_app
from api.context import standing
from registry.admin.demo_hardware import Machine, list_efas, print_gpus
from registry.config import Settings
from registry.domain.actors import Actor, ActorKind
from registry.domain.roles import Role
from registry.main import main
from registry.services import tokens
from tests.clock import NOON, Clock

PEPPER = "pepper-of-the-tests-0123456789abcdef"
NODES = ("node-a", "node-b")


class Quiet(WSGIRequestHandler):
    """Serves and says nothing."""

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - werkzeug's name
        """Say nothing."""


@dataclass
class Pratique:
    """The command, set up to speak to a server. `clock` is the server's."""

    url: str
    tokens: dict[str, str]
    clock: Clock
    folder: Path
    printed_at: datetime = field(default=NOON)

    def __call__(self, *arguments: str, who: str = "operator", given: str | bytes | None = None) -> Result:
        """Run `pratique <arguments>` with the token of `who` (a role, or a node's name)."""
        environment = {"PRATIQUE_URL": self.url, "PRATIQUE_TOKEN": self.tokens[who], "PRATIQUE_TOKEN_FILE": None}
        return CliRunner(env=environment).invoke(main, list(arguments), input=given, catch_exceptions=False)

    def json(self, *arguments: str, who: str = "operator", given: str | bytes | None = None) -> Any:
        """Run it with `--output json` and give the document, whatever the exit code."""
        return json.loads(self(*arguments, "--output", "json", who=who, given=given).stdout)

    def report(self, machine: Machine, *more: str, profile: str = "p5.48xlarge") -> Result:
        """Send what this machine's tools would print, one second after the last time."""
        self.clock.advance(1)
        self.printed_at += timedelta(seconds=1)
        devices = self.folder / f"{machine.node}.json"
        devices.write_text(json.dumps(list_efas(machine)))
        options = {"boot-id": machine.boot_id, "provider-id": machine.provider_id, "profile": profile}
        named = [word for name, value in options.items() for word in (f"--{name}", value)]
        parts = ["--part", "nvidia_smi_xml=-", "--devices", str(devices), "--covers", "gpu", "--covers", "efa"]
        checks = ["--check", "gpu.xid=pass", "--check", "efa.link=pass"]
        printed = print_gpus(machine, self.printed_at)
        return self("report", machine.node, *named, *parts, *checks, *more, who=machine.node, given=printed)


@pytest.fixture
def engine() -> str:
    """What the engines have in common is tried elsewhere; a command needs one."""
    return "sqlite"


@pytest.fixture
def pratique(database_url: str, tmp_path: Path, clock: Clock) -> Iterator[Pratique]:
    """The command, with a server of its own."""
    settings = Settings(
        database_url=database_url, data_dir=tmp_path, secret_key=PEPPER, signing_key="ab" * 32, pass_gap_seconds=0
    )
    app = create_app(settings, clock=clock)
    server = make_server("127.0.0.1", 0, app, threaded=False, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    database = standing(app).database
    system = Actor(ActorKind.SYSTEM, "tests")
    wanted = [(str(role), role, None) for role in Role if role not in {Role.NODE, Role.JOIN}]
    wanted += [(node, Role.NODE, node) for node in NODES]
    secrets = {
        name: tokens.create_token(
            database, role=role, name=name, node=node, pepper=PEPPER.encode(), actor=system, now=clock()
        )[1]
        for name, role, node in wanted
    }
    yield Pratique(f"http://127.0.0.1:{server.server_port}", secrets, clock, tmp_path)
    server.shutdown()
    thread.join()
    server.server_close()
    database.close_all()
