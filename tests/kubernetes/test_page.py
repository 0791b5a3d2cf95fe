# SPDX-License-Identifier: Apache-2.0
"""Are the commands of the page for clusters true? They are run, with the real kubectl, against the emulated cluster."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from registry.admin.demo_server import Stage, start_server
from tests.commands import NEEDED, clean_environment, commands_of, make_tools, run_blocks
from tests.kubernetes.emulator import Emulator
from tests.kubernetes.nodes import BORN, Cluster
from tests.project import ROOT

PAGE = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
REPORT = (
    "$ nvidia-smi -q -x | PRATIQUE_TOKEN_FILE=node-a.token pratique report node-a --provider-id i-0abc"
    " --profile g5.48xlarge --part nvidia_smi_xml=- --check gpu.xid=pass > report.txt\n"
)


@pytest.mark.slow
@pytest.mark.skipif(not all(map(shutil.which, (*NEEDED, "kubectl"))), reason="the page's commands need them")
def test_the_commands_of_the_page_do_what_it_says(api: Emulator, cluster: Cluster, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    stage = Stage.set_up(tmp_path / "data")
    for name, token in stage.make_tokens(nodes=("node-a",)).items():
        (work / f"{name}.token").write_text(token)
    environment = clean_environment(make_tools(tmp_path / "bin"))
    own = {name: value for name, value in stage.environment.items() if name.startswith("PRATIQUE_")}
    server = start_server(Stage(stage.folder, {**environment, **own, "PRATIQUE_PASS_GAP_SECONDS": "0"}, stage.settings))
    environment |= {"PRATIQUE_URL": server.url, "RECORDS": str(tmp_path / "data"), "KUBECONFIG": str(work / "config")}
    (work / "config").write_text(config_of(api.url))
    cluster.register("node-a", BORN)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])

    try:
        blocks = [block.replace("8001", port) for block in commands_of(PAGE)]
        run_blocks([2 * REPORT, *blocks], work, environment)
    finally:
        server.stop()
        for file in work.glob("*.pid"):
            with suppress(ProcessLookupError, ValueError):
                os.kill(int(file.read_text()), signal.SIGTERM)
    assert cluster.effects("node-a") == ["NoSchedule"]


def config_of(url: str) -> str:
    """What `kubectl` reads to find the cluster."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "emulated",
            "clusters": [{"name": "emulated", "cluster": {"server": url}}],
            "contexts": [{"name": "emulated", "context": {"cluster": "emulated", "user": "nobody"}}],
            "users": [{"name": "nobody", "user": {}}],
        }
    )
