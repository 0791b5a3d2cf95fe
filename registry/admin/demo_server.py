# SPDX-License-Identifier: Apache-2.0
"""Where does the demo play? On a real server of its own: fresh folder, fresh database, free port, tokens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from registry.admin.ground import SYSTEM, open_ready, utc_now
from registry.admin.migrate import bring_up_to_date
from registry.config import Settings
from registry.domain.roles import Role
from registry.services import audit, keys, tokens

GAP_SECONDS = 1
"""Least time between two passes here. The default of 30 s is what a fleet wants; an audience does not."""

START_SECONDS = 60.0
"""Longest wait for the server to listen: on a busy machine Python alone may take seconds."""

STOP_SECONDS = 20.0
"""Longest wait for the server to end; it lets running requests end first."""

_LISTENING = "listening on "


class ServerFailed(Exception):
    """The server did not start."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The folder of the demo and the settings that point into it."""

    folder: Path
    environment: Mapping[str, str]
    settings: Settings

    @classmethod
    def set_up(cls, folder: Path) -> Stage:
        """Make database and keys in an empty folder. Settings of the caller's environment are left out."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PRATIQUE_")}
        own = {"PRATIQUE_DATA_DIR": str(folder), "PRATIQUE_PASS_GAP_SECONDS": str(GAP_SECONDS)}
        stage = cls(folder, {**inherited, **own}, Settings.from_env(own))
        bring_up_to_date(stage.settings)
        return stage

    def make_tokens(self, *, nodes: tuple[str, ...]) -> dict[str, str]:
        """Make a token for each role but `node` and `join`, and one for each node; the names are the keys."""
        asking = [role for role in Role if role not in {Role.NODE, Role.JOIN}]
        wanted: list[tuple[Role, str, str | None]] = [(role, str(role), None) for role in asking]
        wanted += [(Role.NODE, node, node) for node in nodes]
        with open_ready(self.settings) as database:
            pepper = keys.load_pepper(self.settings)
            return {
                name: tokens.create_token(
                    database, role=role, name=name, node=node, pepper=pepper, actor=SYSTEM, now=utc_now()
                )[1]
                for role, name, node in wanted
            }

    def verify_chain(self) -> dict[str, Any]:
        """Verify the history behind the server's back, as `pratique audit verify` does."""
        with open_ready(self.settings) as database:
            return audit.verify(database)


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that listens at `url`."""

    url: str
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """End it as an operator would, and by force when it does not end."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_server(stage: Stage, *options: str) -> RunningServer:
    """Start `pratique serve` on a free loopback port and wait until it listens. Raises ServerFailed with its log.

    It writes to files and stands in a session of its own, so that it can outlive the demo.
    """
    out, log = stage.folder / "server.out", stage.folder / "server.log"
    command = [sys.executable, "-m", "registry.main", "serve", "--bind", "127.0.0.1:0", "--workers", "2", *options]
    with out.open("wb") as stdout, log.open("wb") as stderr:
        process = subprocess.Popen(  # noqa: S603 - our own program
            command,
            cwd=stage.folder,
            env=dict(stage.environment),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        said = out.read_text()
        if said.startswith(_LISTENING) and said.endswith("\n"):
            return RunningServer(said.splitlines()[0].removeprefix(_LISTENING), process)
        time.sleep(0.05)
    process.kill()
    process.wait()
    raise ServerFailed(f"the server did not start:\n{log.read_text()}")
