# SPDX-License-Identifier: Apache-2.0
"""Does a real browser show the document, with nothing but this server to ask? Needs Chromium."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from registry.admin.demo_server import Stage, start_server

pytestmark = pytest.mark.browser

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


def test_the_page_shows_every_group_of_addresses(tmp_path: Path) -> None:
    browser = shutil.which("chromium") or "chromium"
    stage = Stage.set_up(tmp_path / "data")
    server = start_server(stage)
    try:
        command = [browser, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=10000"]
        shown = subprocess.run(
            [*command, "--enable-logging=stderr", "--dump-dom", f"{server.url}/docs"],
            capture_output=True,
            text=True,
            timeout=90,
            check=True,
        )
    finally:
        server.stop()

    assert "List the devices, newest first" in shown.stdout
    assert "/v1/nodes/{node}/reports" in shown.stdout.replace("<wbr>", "").replace("\u200b", "")
    assert "Content Security Policy" not in shown.stderr
    assert "Failed to load" not in shown.stdout
