# SPDX-License-Identifier: Apache-2.0
"""Is `nvidia-smi -q` read like the XML of the same machine, and refused when it is not whole?"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from registry.collectors import nvidia_smi_xml
from registry.collectors.nvidia_smi_q import parse
from registry.domain.errors import PartUnreadable
from registry.domain.reports import CheckStatus
from tests.collectors.documents import h100_xml, q_document, xml_document
from tests.collectors.machines import Gpu, change, gb200_gpus, geforce_gpus, h100_gpus, v100_gpus

SLICES = ("MIG-3f0e6a52-0000-5000-8000-000000000001", "MIG-3f0e6a52-0000-5000-8000-000000000002")
MACHINES = {
    "h100": h100_gpus(),
    "h100 in trouble": h100_gpus(lost={1}, pending={2}, failed={3}, uncorrected={4}),
    "h100 with slices": change(h100_gpus(2), 1, slices=SLICES),
    "v100": v100_gpus(),
    "gb200": gb200_gpus(),
    "geforce": geforce_gpus(2),
    "err": change(h100_gpus(2), 0, model="ERR!", temperature="ERR!"),
}


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES.keys())
def test_the_text_says_the_same_as_the_xml(machine: Sequence[Gpu]) -> None:
    assert parse(q_document(machine)) == nvidia_smi_xml.parse(xml_document(machine))


def test_the_errors_of_a_slice_are_not_those_of_its_gpu() -> None:
    text = q_document(change(h100_gpus(1), 0, slices=SLICES))
    first = text.index(b"SRAM Uncorrectable")

    inventory = parse(text[:first] + text[first:].replace(b": 0", b": 7", 1))

    assert inventory.entries[0].readings["ecc_volatile_uncorrected"] == 0


def test_a_remark_behind_the_driver_version_is_left_out() -> None:
    text = q_document(h100_gpus(1)).replace(b"580.82.07", b"610.57 [Deprecated; use KMD Version instead]")

    assert parse(text).entries[0].readings["driver_version"] == "610.57"


def test_a_process_cannot_make_its_gpu_look_lost() -> None:
    inventory = parse(q_document(h100_gpus(1)).replace(b"/usr/bin/train", b"ERR!"))

    assert {check.status for check in inventory.checks} == {CheckStatus.PASS}


def test_windows_line_ends_and_a_byte_order_mark_are_read() -> None:
    text = q_document(h100_gpus())

    assert parse(b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n")) == parse(text)


def test_an_unreachable_gpu_counts_and_has_a_place_only() -> None:
    line = b"Unable to determine the device handle for GPU0000:18:00.0: GPU is lost.  Reboot the system to recover it\n"

    inventory = parse(line + q_document(h100_gpus()[1:], attached=8))

    assert len(inventory.entries) == 8
    first = inventory.entries[0]
    assert (first.slot, first.serial, first.uuid) == ("0000:18:00.0", None, None)
    checks = {check.name: check.status for check in inventory.checks if check.device == "0000:18:00.0"}
    assert checks["gpu.responding"] is CheckStatus.FAIL
    assert checks["gpu.ecc"] is CheckStatus.UNKNOWN


def test_a_gpu_that_is_listed_and_unreachable_does_not_stand_for_a_missing_one() -> None:
    line = b"Unable to determine the device handle for GPU 0000:18:00.0: Unknown Error\n"

    with pytest.raises(PartUnreadable, match="holds 7 GPUs"):
        parse(line + q_document(h100_gpus()[:7], attached=8))


def test_an_inforom_warning_at_the_end_is_a_failure() -> None:
    (failure,) = parse(q_document(h100_gpus()) + b"WARNING: infoROM is corrupted at gpu 0000:DB:00.0\n").failures

    assert (failure.code, failure.slot) == ("gpu.inforom", "0000:db:00.0")


WHOLE = q_document(h100_gpus())
MANY_KEYS = b"".join(b"    k%d : v\n" % at for at in range(9000))
REFUSED = {
    "empty": (b"", "empty"),
    "xml": (h100_xml(), "no line of nvidia-smi -q"),
    "json": (b"[]", "JSON"),
    "no driver": (
        b"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "see to the driver",
    ),
    "no devices": (b"No devices were found\n", "see to the driver"),
    "fewer than attached": (q_document(h100_gpus()[:7], attached=8), "holds 7 GPUs where 'Attached GPUs' says 8"),
    "more than attached": (q_document(h100_gpus(), attached=7), "holds 8 GPUs where 'Attached GPUs' says 7"),
    "two documents": (WHOLE * 2, "two documents"),
    "head missing": (WHOLE[WHOLE.index(b"GPU 0000") :], "heading"),
    "head cut": (WHOLE[WHOLE.index(b"    Product") :], "before the first GPU"),
    "cut within the last gpu": (WHOLE[: WHOLE.rindex(b"Temperature")], "stops within its last GPU"),
    "a log around it": (b"node-7 says:\n" + WHOLE, "no line of nvidia-smi -q"),
    "a log after it": (WHOLE + b"exit code 0\n", "no line of nvidia-smi -q"),
    "garbage bus id": (WHOLE.replace(b": 00000000:18:00.0", b": 0000:zz:00.0"), "0000:zz:00.0"),
    "a long value": (WHOLE.replace(b"1651000000001", b"1" * 1000), "1000 characters"),
    "endless keys": (
        WHOLE.replace(b"    PCI\n", b"".join(b"    k%d : v\n" % at for at in range(9000)), 1),
        "more lines",
    ),
}


@pytest.mark.parametrize(("data", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_it_is_refused_whole_and_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(PartUnreadable, match=reason):
        parse(data)


@pytest.mark.parametrize("share", [0.02, 0.2, 0.5, 0.8, 0.95])
def test_a_cut_off_text_is_refused(share: float) -> None:
    with pytest.raises(PartUnreadable):
        parse(WHOLE[: int(len(WHOLE) * share)])
