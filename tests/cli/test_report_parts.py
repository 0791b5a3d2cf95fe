# SPDX-License-Identifier: Apache-2.0
"""Does `pratique report` send the output of every tool as it was printed?"""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Pratique
from tests.collectors.dcgm import gpus4, health, warning
from tests.collectors.documents import xml_document
from tests.collectors.machines import h100_gpus

GPUS = h100_gpus(8)
OPTIONS = ("--boot-id", "b-1", "--provider-id", "i-1", "--profile", "p5.48xlarge")
PARTS = {
    "nvidia_smi_xml": xml_document(GPUS),
    "kernel_log": b"[    0.000000] Linux version 6.8.0 (build@host)\n",
    "dcgm_health": health("Healthy"),
    "dcgm_diag": gpus4(8, {3: ("Fail", [warning(52)])}, serials=[gpu.serial for gpu in GPUS]),
}


def send(pratique: Pratique, folder: Path, parts: dict[str, bytes]) -> tuple[int, str]:
    named: list[str] = []
    for name, content in parts.items():
        (folder / name).write_bytes(content)
        named += ["--part", f"{name}={folder / name}"]
    result = pratique("report", "node-a", *OPTIONS, *named, who="node-a")
    return result.exit_code, result.output


def test_parts_of_several_tools_make_one_report(pratique: Pratique, tmp_path: Path) -> None:
    code, told = send(pratique, tmp_path, PARTS)

    assert code == 0, told
    assert "held" in told or "not admitted" in told
    assert str(GPUS[3].serial) in told


def test_a_part_that_the_server_cannot_read_is_named(pratique: Pratique, tmp_path: Path) -> None:
    code, told = send(pratique, tmp_path, {**PARTS, "dcgm_diag": b"{"})

    assert code == 4
    assert "dcgm_diag cannot be read" in told


def test_a_part_that_is_given_twice_is_not_lost_unseen(pratique: Pratique, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(PARTS["kernel_log"])
    named = ["--part", f"kernel_log={tmp_path / 'log'}"] * 2

    result = pratique("report", "node-a", *OPTIONS, *named, who="node-a")

    assert (result.exit_code, "kernel_log is given twice" in result.output) == (2, True)
