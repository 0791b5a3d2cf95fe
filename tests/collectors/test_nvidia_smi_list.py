# SPDX-License-Identifier: Apache-2.0
"""Is `nvidia-smi -L` read with its slices, and with the places it could not reach?"""

from __future__ import annotations

import pytest

from registry.collectors.nvidia_smi_list import parse
from registry.domain.errors import PartUnreadable
from tests.collectors.documents import list_document
from tests.collectors.machines import change, h100_gpus, uuid_of

SLICES = ("MIG-3f0e6a52-0000-5000-8000-000000000001", "MIG-3f0e6a52-0000-5000-8000-000000000002")


def test_a_list_names_models_and_uuids_and_no_slots() -> None:
    inventory = parse(list_document(h100_gpus()))

    assert [entry.uuid for entry in inventory.entries] == [uuid_of(0, at) for at in range(8)]
    assert {(entry.model, entry.slot, entry.serial) for entry in inventory.entries} == {
        ("NVIDIA H100 80GB HBM3", None, None)
    }
    assert {(check.name, check.status.value) for check in inventory.checks} == {("gpu.responding", "pass")}
    assert [check.device for check in inventory.checks] == [uuid_of(0, at) for at in range(8)]


def test_slices_belong_to_the_gpu_above_them() -> None:
    entries = parse(list_document(change(h100_gpus(3), 1, slices=SLICES))).entries

    assert [entry.slices for entry in entries] == [(), SLICES, ()]


@pytest.mark.parametrize("place", [" 0000:18:00.0", " 00000000:18:00.0", "0000:18:00.0", "0: 0000:18:00.0"])
def test_the_index_of_an_unreachable_gpu_is_given_to_nobody(place: str) -> None:
    rest = b"".join(list_document(h100_gpus(4)).splitlines(keepends=True)[1:])
    line = f"Unable to determine the device handle for GPU{place}: Unknown Error\n".encode()

    inventory = parse(line + rest)

    first = inventory.entries[0]
    assert (first.slot, first.serial, first.uuid) == ("0000:18:00.0", None, None)
    assert [entry.readings.get("index") for entry in inventory.entries] == [None, 1, 2, 3]
    assert [check.status.value for check in inventory.checks] == ["fail", "pass", "pass", "pass"]


def test_an_unreachable_gpu_without_an_address_is_still_an_entry() -> None:
    inventory = parse(b"Unable to determine the device handle for GPU: Unknown Error\n" + list_document(h100_gpus(1)))

    assert inventory.entries[0].slot is None
    assert (inventory.checks[0].device, inventory.checks[0].status.value) == (None, "fail")


def test_err_in_place_of_a_name_is_a_gpu_that_does_not_respond() -> None:
    inventory = parse(b"GPU 0: ERR! (UUID: ERR!)\n")

    assert (inventory.entries[0].model, inventory.entries[0].uuid) == (None, "ERR!")
    assert inventory.checks[0].status.value == "fail"


def test_windows_line_ends_are_read() -> None:
    text = list_document(h100_gpus())

    assert parse(text.replace(b"\n", b"\r\n")) == parse(text)


REFUSED = {
    "empty": (b"", "empty"),
    "cut off": (list_document(h100_gpus()).rstrip()[:-5], "no line of nvidia-smi -L"),
    "two lists": (list_document(h100_gpus()) * 2, "listed twice"),
    "no devices": (b"No devices found.\n", "see to the driver"),
    "a slice without its gpu": (f"  MIG 1g.10gb Device 0: (UUID: {SLICES[0]})\n".encode(), "no line of nvidia-smi -L"),
    "another text": (b"hello", "no line of nvidia-smi -L"),
    "too many": (b"".join(b"GPU %d: a (UUID: GPU-1)\n" % at for at in range(1025)), "more than 1024"),
}


@pytest.mark.parametrize(("data", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_it_is_refused_whole_and_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(PartUnreadable, match=reason):
        parse(data)
