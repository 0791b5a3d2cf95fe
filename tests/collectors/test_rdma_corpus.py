# SPDX-License-Identifier: Apache-2.0
"""Are public captures of RDMA tools, lspci and firmware read for what they are?

The captures are not part of this project; see test_corpus for where they are looked for.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from registry.collectors import dmi, efa_sysfs, fi_info, ibstat, ibv_devinfo, lspci
from registry.collectors.rdma import read_number
from registry.domain.errors import PartUnreadable
from registry.domain.identifiers import identifiers_of
from registry.domain.reports import Inventory
from tests.collectors.adapters import tar_of
from tests.collectors.test_corpus import CORPUS

pytestmark = pytest.mark.skipif(not (CORPUS / "efa").is_dir(), reason="the captures are not here")


def capture(name: str) -> bytes:
    return (CORPUS / name).read_bytes()


@pytest.mark.parametrize(
    ("name", "device", "slot"),
    [
        ("efa/ibv_devinfo-efa_0-zero-guid-head.txt", "efa_0", None),
        ("efa/ibv_devinfo-rdmap16s27-zero-guid.txt", "rdmap16s27", "0000:10:1b.0"),
    ],
)
def test_an_efa_with_a_guid_of_zeros_shows_nothing_that_identifies_it(name: str, device: str, slot: str | None) -> None:
    (entry,) = ibv_devinfo.parse(capture(name)).entries

    assert (entry.name, entry.slot, entry.model) == (device, slot, "EFA 1d0f:efa0")
    assert (entry.node_guid, entry.firmware) == ("0000:0000:0000:0000", {"efa": "0.0.0.0"})
    assert [one.is_usable for one in identifiers_of(entry)] == [False]


def test_two_entries_of_the_libfabric_guide_are_one_card() -> None:
    (entry,) = fi_info.parse(capture("efa/fi_info-libfabric-docs.txt")).entries

    assert (entry.name, entry.slot, entry.gid) == ("efa_0", None, "fe80::df:57ff:fe1a:beb3")


def test_the_four_cards_of_a_p4d_are_told_by_place_and_address() -> None:
    entries = fi_info.parse(capture("efa/fi_info-p4d-4dev-fabric-linklocal.txt")).entries

    assert [entry.name for entry in entries] == ["rdmap16s27", "rdmap32s27", "rdmap144s27", "rdmap160s27"]
    assert [entry.slot for entry in entries] == [f"0000:{bus}:1b.0" for bus in ("10", "20", "90", "a0")]
    assert entries[0].gid == "fe80::10d8:baff:fec9:6c1"


@pytest.mark.parametrize("name", ["lspci-vvv", "lspci.nn.a10", "lspci.nn.a100"])
def test_no_capture_of_lspci_shows_an_efa_or_a_gone_gpu(name: str) -> None:
    inventory = lspci.parse(capture(f"gpud/{name}"))

    assert inventory.entries == ()
    assert inventory.checks == ()


def test_the_serial_numbers_of_pci_functions_identify_nobody_in_a_full_listing() -> None:
    text = capture("gpud/lspci-vvv").decode()
    gpu = re.search(r"(?m)^\S+ 3D controller: NVIDIA Corporation Device 2330 \(rev a1\)$", text)
    assert gpu is not None
    gone = text.replace(gpu[0], gpu[0].replace("a1", "ff"), 1)

    inventory = lspci.parse(gone.encode())

    assert [(check.name, check.device) for check in inventory.checks] == [("gpu.responding", "0000:19:00.0")]
    assert inventory.entries == ()


@pytest.mark.parametrize(
    ("name", "cards", "down"),
    [
        ("gpud/ibstat.47.0.a100.all.active.0", 9, 0),
        ("gpud/ibstat.47.0.h100.all.active.0", 12, 0),
        ("gpud/ibstat.47.0.h100.all.active.2", 9, 0),
        ("gpud/ibstat.47.0.h100.some.down.0", 12, 3),
        ("gpud/ibstat.47.0.h100.some.down.1", 12, 2),
        ("gpud/ibstat.47.0.h100.some.down.with.polling.1", 12, 2),
        ("gpud/ibstatus.39.0.a100.all.active.0", 9, 0),
        ("azhpc-diagnostics/ibstatus.out", 2, 0),
    ],
)
def test_the_ports_of_other_cards_are_counted_and_no_card_is_a_device(name: str, cards: int, down: int) -> None:
    findings = ibstat.parse(capture(name))

    assert len(findings.readings) == cards
    assert len([notice for notice in findings.warnings if notice.code == "rdma_port_inactive"]) == down
    assert findings.checks == ()


def read_folder(folder: Path) -> Inventory:
    files = {
        f"infiniband/{path.relative_to(folder)}": path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    return efa_sysfs.parse(tar_of(files, zipped=True))


def read_flat(name: str) -> Inventory:
    """Make a tar of a capture that has all files in one text: a path, its number of lines, the lines."""
    files = {}
    for path, lines, content in re.findall(
        r"Path: (\S+)\nLines: (\d+)\n((?:(?!Path: ).*\n?)*)", capture(name).decode()
    ):
        assert content.count("\n") >= int(lines) - 1
        files[path] = content.encode()
    return efa_sysfs.parse(tar_of(files))


def test_the_sysfs_trees_of_other_cards_hold_no_efa() -> None:
    for inventory, names in (
        (read_folder(CORPUS / "gpud/sysfs/sys-class-infiniband-h100.0"), ("mlx5_0", "mlx5_9", "mlx5_bond_0")),
        (read_flat("node_exporter/sys-class-infiniband.ttar.txt"), ("i40iw0", "mlx4_0")),
    ):
        assert inventory.entries == ()
        assert all(name in inventory.warnings[0].message for name in names)
        assert [check.status for check in inventory.checks] == ["not_applicable"]


def test_the_firmware_names_the_system_and_leaves_placeholders_alone() -> None:
    findings = dmi.parse(capture("gpud/dmidecode"))

    assert findings.host == {"dmi": {"serial": "HSR8X04", "uuid": "4c4c4544-0053-5210-8038-c8c04f583034"}}


def test_counters_in_scientific_notation_are_whole_numbers() -> None:
    text = capture("efa/p4d-node-exporter-amazonefa.prom").decode()
    numbers = [read_number(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith("node_amazonefa")]

    assert len(numbers) > 50
    assert all(isinstance(number, int) for number in numbers)
    assert 1047241117296 in numbers


@pytest.mark.parametrize("name", ["p4d-node-exporter-amazonefa.prom", "rdma-statistic-show-head.txt"])
@pytest.mark.parametrize("parse", [ibv_devinfo.parse, fi_info.parse, lspci.parse, efa_sysfs.parse])
def test_the_output_of_another_tool_is_refused(name: str, parse: object) -> None:
    assert callable(parse)
    with pytest.raises(PartUnreadable):
        parse(capture(f"efa/{name}"))
