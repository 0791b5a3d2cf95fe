# SPDX-License-Identifier: Apache-2.0
"""Does lspci list the EFAs and nothing else, and tell which devices have fallen off the bus?"""

from __future__ import annotations

from pathlib import Path

import pytest

from registry.collectors import lspci
from registry.domain.errors import PartUnreadable
from registry.domain.reports import CheckStatus
from tests.collectors.adapters import Efa
from tests.collectors.adapters import lspci as lspci_text

GPUS = ("0000:53:00.0", "0000:64:00.0")
VPD = "\tCapabilities: [48] Vital Product Data\n\t\tRead-only fields:\n\t\t\t[SN] Serial number: MT2300X00001   \n"


def test_the_efas_are_listed_by_slot_and_nothing_is_said_of_devices_that_answer() -> None:
    inventory = lspci.parse(lspci_text(Efa(0), Efa(1, product=0xEFA2), gpus=GPUS))

    assert [(entry.slot, entry.model, entry.vendor) for entry in inventory.entries] == [
        ("0000:10:1b.0", "EFA 1d0f:efa1", "amazon"),
        ("0000:11:1b.0", "EFA 1d0f:efa2", "amazon"),
    ]
    assert inventory.kind == "efa"
    assert inventory.checks == ()


def test_the_device_serial_number_of_pci_express_is_nobodys_serial() -> None:
    inventory = lspci.parse(lspci_text(Efa(0), gpus=GPUS))

    assert all(entry.serial is None for entry in inventory.entries)


def test_a_serial_of_the_vital_product_data_is_its_functions_own() -> None:
    mellanox = "0000:c0:00.{} Infiniband controller [0207]: Mellanox Technologies MT2910 [15b3:1021]\n"
    efa = VPD.replace("MT2300X00001", "A1B2C3")
    text = "".join(mellanox.format(at) + VPD for at in (0, 1)) + lspci_text(Efa(0)).decode() + efa

    (entry,) = lspci.parse(text.encode()).entries

    assert (entry.slot, entry.serial) == ("0000:10:1b.0", "A1B2C3")


@pytest.mark.parametrize(
    "mark",
    [
        " (rev ff) (prog-if ff)\n",
        " (rev a1)\n\t!!! Unknown header type 7f\n",
        " (rev ff)\n\t!!! Unknown header type 7f\n",
    ],
)
@pytest.mark.parametrize(
    "heading",
    [
        "0000:53:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330]",
        "0000:53:00.0 VGA compatible controller [0300]: NVIDIA Corporation Device [10de:2330]",
        "53:00.0 3D controller: NVIDIA Corporation Device 2330",
        "53:00.0 3D controller: Device 10de:2330",
    ],
)
def test_a_gpu_that_reads_only_ones_does_not_respond(heading: str, mark: str) -> None:
    inventory = lspci.parse((heading + mark + "0000:64:00.0 3D controller [0302]: NVIDIA [10de:2330]\n").encode())

    (check,) = inventory.checks
    assert (check.name, check.device, check.status) == ("gpu.responding", "0000:53:00.0", CheckStatus.FAIL)
    assert inventory.entries == ()


def test_bridges_and_other_makers_cards_are_no_gpus_when_they_are_gone() -> None:
    gone = " (rev ff) (prog-if ff)\n\t!!! Unknown header type 7f\n"
    text = f"0005:00:00.0 Bridge [0680]: NVIDIA Corporation Device [10de:22a3]{gone}"
    text += f"0006:00:00.0 3D controller [0302]: Advanced Micro Devices Device [1002:74a1]{gone}"

    assert lspci.parse(text.encode()).checks == ()


def test_an_efa_that_reads_only_ones_is_listed_and_its_link_fails() -> None:
    inventory = lspci.parse(lspci_text(Efa(0), Efa(1), gone=("0000:11:1b.0",)))

    assert [entry.slot for entry in inventory.entries] == ["0000:10:1b.0", "0000:11:1b.0"]
    assert [(check.name, check.device, check.status) for check in inventory.checks] == [
        ("efa.link", "0000:11:1b.0", CheckStatus.FAIL)
    ]


@pytest.mark.parametrize(
    ("line", "model"),
    [
        ("00:06.0 Ethernet controller: Amazon.com, Inc. Elastic Fabric Adapter (EFA)", None),
        ("00:06.0 Ethernet controller: Amazon.com, Inc. Device efa3", "EFA 1d0f:efa3"),
        ("00:06.0 Ethernet controller: Device 1d0f:efa1", "EFA 1d0f:efa1"),
        ("00:06.0 Ethernet controller [0200]: Device [1d0f:efa1] (rev 01)", "EFA 1d0f:efa1"),
        ("00:06.0 Unassigned class [ff00]: Some Name [0000:0000] [abcd:0001]\n\tKernel driver in use: efa", None),
    ],
)
def test_vendor_and_driver_decide_in_every_form_of_the_output(line: str, model: str | None) -> None:
    (entry,) = lspci.parse(f"{line}\n".encode()).entries

    assert (entry.slot, entry.model) == ("0000:00:06.0", model)


@pytest.mark.parametrize(
    "line",
    [
        "00:05.0 Ethernet controller [0200]: Amazon.com, Inc. Elastic Network Adapter (ENA) [1d0f:ec20]",
        "00:05.0 Ethernet controller [0200]: Mellanox [Elastic Fabric Adapter] [15b3:1021]\n\tSubsystem: [1d0f:efa0]",
        "00:05.0 Ethernet controller [0200]: Other [15b3:1021]\n\tKernel modules: efa",
    ],
)
def test_what_is_only_called_so_is_no_efa(line: str) -> None:
    assert lspci.parse(f"{line}\n".encode()).entries == ()


def test_what_was_asked_for_the_functions_of_one_vendor_is_no_list_of_efas() -> None:
    gone = lspci_text(gpus=GPUS, gone=GPUS[:1]).decode()
    only_gpus = gone[gone.index(GPUS[0]) :].encode()

    inventory = lspci.parse(only_gpus)

    assert (inventory.is_list, inventory.entries) == (False, ())
    assert [(check.name, check.device) for check in inventory.checks] == [("gpu.responding", GPUS[0])]
    assert lspci.parse(gone.encode()).is_list


def test_warnings_of_the_tool_and_bytes_are_passed_over() -> None:
    text = b"pcilib: Cannot open /proc/bus/pci\n" + lspci_text(Efa(0)) + b"00: 0f 1d a0 ef\n10: ff ff\n"

    assert len(lspci.parse(text).entries) == 1


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"pcilib: Cannot open /proc/bus/pci\n", "no PCI function"),
        (b"lspci: command not found\n", "no PCI function"),
        (lspci_text(Efa(0)) * 2, "listed twice"),
        (lspci_text(Efa(0), Efa(1))[:-60], "cut off"),
        (lspci_text(Efa(0)) + b"\nConnection closed.\n", "no such line"),
        (b"00:06.0 A [0200]: B [1d0f:efa0]\n\t[SN] Serial number: " + b"9" * 300 + b"\n", "serial reads"),
    ],
)
def test_what_is_no_whole_list_of_lspci_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(PartUnreadable, match=reason):
        lspci.parse(data)


def test_live_the_tool_is_asked_for_domains_numbers_and_details() -> None:
    asked: list[object] = []

    def run(command: object) -> bytes:
        asked.append(command)
        return lspci_text(Efa(0))

    assert len(lspci.collect(Path("/nowhere"), run).entries) == 1
    assert asked == [["lspci", "-Dnnvvv"]]
