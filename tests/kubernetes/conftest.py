# SPDX-License-Identifier: Apache-2.0
"""What do the tests of the controller stand on? An emulated cluster for each, and one real server for all."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kubernetes.emulator import Emulator
from tests.kubernetes.nodes import Cluster
from tests.kubernetes.running import RunningController
from tests.live.server import Caller, LiveServer

Start = Callable[..., RunningController]
Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def api() -> Iterator[Emulator]:
    """An API server with nothing in it."""
    emulator = Emulator()
    emulator.start()
    yield emulator
    emulator.stop()


@pytest.fixture
def cluster(api: Emulator) -> Cluster:
    """Its nodes."""
    return Cluster(api)


@pytest.fixture
def kubectl(api: Emulator, tmp_path: Path) -> Kubectl:
    """Runs `kubectl` against the emulated cluster, without anybody's configuration."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["kubectl", f"--server={api.url}", f"--cache-dir={tmp_path / 'cache'}", *arguments]
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "none")}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    return run


@pytest.fixture(scope="package")
def server(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A running Pratique. One engine is enough: what a controller asks is answered alike by both."""
    folder = tmp_path_factory.mktemp("kubernetes")
    shutil.copytree(sqlite_template, folder / "database")
    running = LiveServer(folder, f"sqlite:///{folder / 'database' / 'registry.db'}")
    running.start()
    try:
        yield running
    finally:
        running.kill()
    assert "Traceback" not in running.log(), running.log()


@pytest.fixture(scope="package")
def operator(server: LiveServer) -> Caller:
    """An operator of that server."""
    return server.caller("operator", "alice")


@pytest.fixture(scope="package")
def auditor(server: LiveServer) -> Caller:
    """An auditor: as whom the controller asks."""
    return server.caller("auditor", "kubernetes")


@pytest.fixture
def start(api: Emulator, server: LiveServer, auditor: Caller, tmp_path: Path) -> Iterator[Start]:
    """Starts controllers of the emulated cluster as processes; none outlives the test."""
    started: list[RunningController] = []

    def begin(*more: str, url: str = server.url) -> RunningController:
        made = RunningController(api, url, auditor.token, tmp_path / f"controller-{len(started)}", *more)
        made.start()
        started.append(made)
        return made

    yield begin
    for one in started:
        if one.process is not None:
            one.process.kill()
            one.process.wait()
        assert "Traceback" not in one.log_file.read_text(), one.log_file.read_text()
