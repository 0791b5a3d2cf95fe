# SPDX-License-Identifier: Apache-2.0
"""Does it still work once packed? The wheel is built, installed from the lock file as the Dockerfile does, and run."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.project import ROOT, project_files

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]

PACKAGES = ("api", "migrations", "registry")
SERVER_LIBRARIES = ("flask", "gunicorn", "marshmallow", "orjson", "peewee", "psycopg", "pysqlite3")

IMPORT_THE_NODES_HALF = f"""
import importlib, importlib.util, pkgutil
for name in {SERVER_LIBRARIES}:
    assert importlib.util.find_spec(name) is None, name
for name in ("registry.agent", "registry.cli", "registry.collectors", "registry.domain"):
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        importlib.import_module(module.name)
import registry.client, registry.config, registry.main
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of what git tracks, so that no file made here gets into it."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheels")
    for path in project_files():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, source / path)
    run_tool(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), cwd=source)
    return next(out.glob("pratique-*.whl"))


@pytest.fixture(scope="module")
def node(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the base install alone."""
    return install(str(wheel), tmp_path_factory.mktemp("node"))


@pytest.fixture(scope="module")
def server(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the server's extra."""
    return install(f"{wheel}[server]", tmp_path_factory.mktemp("server"))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What a process finds in a container: no home, no locale, nothing but the data folder."""
    (tmp_path / "data").mkdir()
    return {"PATH": "/usr/bin:/bin", "PRATIQUE_DATA_DIR": str(tmp_path / "data")}


@pytest.fixture
def closed_folder(tmp_path: Path) -> Iterator[Path]:
    """A working folder that nobody but root can write to, and that must be empty afterwards for root too."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o555)
    yield folder
    assert not list(folder.iterdir())


def test_the_wheel_holds_every_file_of_the_packages_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}

    beside = {"api/bootstrap.sh"}
    assert packed == {path.as_posix() for path in project_files() if path.parts[0] in PACKAGES} | beside


def test_a_node_needs_none_of_the_servers_libraries(
    node: Path, environment: dict[str, str], closed_folder: Path
) -> None:
    run_tool(str(node / "python"), "-c", IMPORT_THE_NODES_HALF, cwd=closed_folder, environment=environment)

    said = run_tool(str(node / "pratique"), "--help", cwd=closed_folder, environment=environment)

    assert "admit" in said


def test_nothing_is_installed_that_the_lock_file_does_not_pin(server: Path) -> None:
    installed = run_tool(tool("uv"), "pip", "freeze", "--python", str(server / "python"), cwd=ROOT).split("\n")
    locked = (ROOT / "requirements.lock").read_text()

    assert [line for line in installed if line and "pratique" not in line and f"{line} " not in locked] == []


def test_the_server_starts_without_a_home_and_writes_only_its_data(
    server: Path, environment: dict[str, str], closed_folder: Path
) -> None:
    command = str(server / "pratique")
    port = free_port()
    run_tool(command, "migrate", cwd=closed_folder, environment=environment)

    process = subprocess.Popen(
        [command, "serve", "--bind", f"127.0.0.1:{port}"], cwd=closed_folder, env=environment, start_new_session=True
    )
    try:
        wait_until_it_answers(f"http://127.0.0.1:{port}/health/live", process)
        ready = requests.get(f"http://127.0.0.1:{port}/health/ready", timeout=10)
        process.send_signal(signal.SIGTERM)
        ended = process.wait(timeout=30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    assert ready.status_code == 200, ready.text
    assert ended == 0


def tool(name: str) -> str:
    """Find a program of the environment that runs the tests."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name) or pytest.fail(f"{name} is not installed")


def install(requirement: str, folder: Path) -> Path:
    """Install a wheel into a new environment, as the Dockerfile does: uv checks the digests of its constraints."""
    python = folder / "bin" / "python"
    run_tool(tool("uv"), "venv", "--quiet", "--python", sys.executable, "--clear", str(folder), cwd=ROOT)
    options = ["--quiet", "--python", str(python), "--constraints", "requirements.lock"]
    run_tool(tool("uv"), "pip", "install", *options, requirement, cwd=ROOT)
    return python.parent


def run_tool(*command: str, cwd: Path, environment: dict[str, str] | None = None) -> str:
    """Run a program to its end and return what it printed; fail with everything it said when it failed."""
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_until_it_answers(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if requests.get(url, timeout=2).status_code == 200:
                return
        except requests.ConnectionError:
            time.sleep(0.1)
    pytest.fail(f"{url} does not answer")
