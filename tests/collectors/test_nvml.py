# SPDX-License-Identifier: Apache-2.0
"""Does NVML, asked directly, make the list that nvidia-smi would have made?"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from ctypes import Structure, c_uint
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from registry.collectors import nvml
from registry.domain.reports import CheckStatus, Inventory

real = importlib.import_module("pynvml")

BASE = {
    "nvmlDeviceGetSerial": "1651000000001",
    "nvmlDeviceGetUUID": "GPU-6e3f98df-2fca-5616-a0b6-50cd532495b2",
    "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
    "nvmlDeviceGetVbiosVersion": "96.00.9F.00.04",
    "nvmlDeviceGetInforomImageVersion": "G520.0205.00.05",
    "nvmlDeviceGetBoardPartNumber": "692-2G520-0205-000",
    "nvmlDeviceGetModuleId": 4,
    "nvmlDeviceGetPciInfo": SimpleNamespace(busId="00000000:53:00.0"),
    "nvmlDeviceGetMinorNumber": 0,
    "nvmlDeviceGetMultiGpuBoard": 0,
    "nvmlDeviceGetBoardId": 0x1800,
    "nvmlDeviceGetMigMode": [0, 1],
    "nvmlDeviceGetEccMode": [1, 1],
    "nvmlDeviceGetTotalEccErrors": 0,
    "nvmlDeviceGetRetiredPages": [],
    "nvmlDeviceGetRetiredPagesPendingStatus": 0,
    "nvmlDeviceGetRemappedRows": (0, 0, 0, 0),
    "nvmlDeviceGetTemperature": 41,
    "nvmlDeviceGetPowerUsage": 612340,
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=97, memory=40),
    real.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: 0,
    real.NVML_FI_DEV_MEMORY_TEMP: 52,
}


@dataclass
class Card:
    """What one GPU answers where it differs from BASE; `slices` by their index."""

    answers: dict[Any, Any] = field(default_factory=dict)
    slices: dict[int, str] = field(default_factory=dict)

    def answer(self, name: Any) -> Any:
        return {**BASE, **self.answers}[name]


class Error(Exception):
    """As `pynvml.NVMLError`: an exception with the number in `value`."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


class Fail:
    """An answer that is an error."""

    def __init__(self, name: str) -> None:
        self.code: int = getattr(real, name)


def given(answer: Any) -> Any:
    if isinstance(answer, Fail):
        raise Error(answer.code)
    return answer


def asks(name: str) -> Callable[..., Any]:
    return lambda card, *_: card if isinstance(card, str) else given(card.answer(name))


def fields(card: Card, numbers: list[int]) -> list[SimpleNamespace]:
    found = [card.answer(number) for number in numbers]
    return [
        SimpleNamespace(nvmlReturn=one.code, value=SimpleNamespace(uiVal=7))
        if isinstance(one, Fail)
        else SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=one))
        for one in found
    ]


def part(card: Card, index: int) -> str:
    return str(given(card.slices.get(index, Fail("NVML_ERROR_NOT_FOUND"))))


def fake(*cards: Card | Fail, **changes: Any) -> SimpleNamespace:
    """A module in the shape of `pynvml`, with the constants of the real one, over these cards."""
    calls: list[str] = []
    return SimpleNamespace(
        **{
            **{name: value for name, value in vars(real).items() if name.startswith("NVML_")},
            **{name: asks(name) for name in BASE if isinstance(name, str)},
            "NVMLError": Error,
            "calls": calls,
            "nvmlInit": lambda: calls.append("init"),
            "nvmlShutdown": lambda: calls.append("shutdown"),
            "nvmlDeviceGetCount": lambda: len(cards),
            "nvmlSystemGetDriverVersion": lambda: "580.105.08",
            "nvmlDeviceGetHandleByIndex": lambda index: given(cards[index]),
            "nvmlDeviceGetFieldValues": fields,
            "nvmlDeviceGetMaxMigDeviceCount": lambda _: 7,
            "nvmlDeviceGetMigDeviceHandleByIndex": part,
            **changes,
        }
    )


@pytest.fixture
def collect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Inventory | None]:
    def with_module(*cards: Card | Fail, **changes: Any) -> Inventory | None:
        monkeypatch.setitem(sys.modules, "pynvml", fake(*cards, **changes))
        return nvml.collect()

    return with_module


NONE_THERE = Fail("NVML_ERROR_NOT_SUPPORTED")


def ampere(**answers: Any) -> Card:
    """A card without retired pages, like all since Ampere."""
    retired = dict.fromkeys(("nvmlDeviceGetRetiredPages", "nvmlDeviceGetRetiredPagesPendingStatus"), NONE_THERE)
    return Card({**retired, **answers})


def statuses(found: Inventory | None) -> dict[str, CheckStatus]:
    assert found is not None
    return {one.name: one.status for one in found.checks}


def test_every_name_that_is_asked_for_is_there() -> None:
    names = [one.function for one in nvml._QUESTIONS.values()]
    names += [constant for one in nvml._QUESTIONS.values() for constant in one.constants]
    names += [constant for constant, _ in nvml._FIELDS.values()]
    names += [*nvml._WORDS, "nvmlInit", "nvmlShutdown", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"]
    names += ["nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlSystemGetDriverVersion"]

    assert [name for name in names if not hasattr(real, name)] == []


def test_a_gpu_is_listed_as_nvidia_smi_lists_it(collect: Callable[..., Inventory | None]) -> None:
    found = collect(ampere())

    assert found is not None
    (entry,) = found.entries
    assert (entry.kind, entry.vendor, entry.slot) == ("gpu", "nvidia", "0000:53:00.0")
    assert (entry.serial, entry.uuid) == ("1651000000001", "GPU-6e3f98df-2fca-5616-a0b6-50cd532495b2")
    assert (entry.model, entry.part_number, entry.module_id) == ("NVIDIA H100 80GB HBM3", "692-2G520-0205-000", "4")
    assert entry.firmware == {"vbios": "96.00.9F.00.04", "inforom": "G520.0205.00.05", "driver": "580.105.08"}
    read = entry.readings
    assert (read["temperature_celsius"], read["power_watts"], read["utilization_percent"]) == (41, 612.34, 97)
    assert (read["memory_temperature_celsius"], read["ecc_volatile_uncorrected"]) == (52, 0)
    assert (read["multigpu_board"], read["board_id"], read["mig_current"]) == ("No", "0x1800", "Disabled")
    assert (read["driver_version"], read["retired_pending"], read["retired_dbe"]) == ("580.105.08", None, None)
    assert set(statuses(found).values()) == {CheckStatus.PASS}
    assert (found.attached, found.stamp, found.is_partial) == (1, None, False)


def test_bytes_are_read_as_text(collect: Callable[..., Inventory | None]) -> None:
    pci = SimpleNamespace(busId=b"00000000:53:00.0")
    found = collect(ampere(nvmlDeviceGetSerial=b"0324018000001", nvmlDeviceGetPciInfo=pci))

    assert found is not None
    assert (found.entries[0].serial, found.entries[0].slot) == ("0324018000001", "0000:53:00.0")


@pytest.mark.parametrize(
    ("answers", "check", "status"),
    [
        ({"nvmlDeviceGetTotalEccErrors": 2}, "gpu.ecc", CheckStatus.FAIL),
        ({"nvmlDeviceGetTotalEccErrors": NONE_THERE}, "gpu.ecc", CheckStatus.NOT_APPLICABLE),
        ({"nvmlDeviceGetTotalEccErrors": Fail("NVML_ERROR_NO_PERMISSION")}, "gpu.ecc", CheckStatus.UNKNOWN),
        ({"nvmlDeviceGetTotalEccErrors": Fail("NVML_ERROR_TIMEOUT")}, "gpu.ecc", CheckStatus.UNKNOWN),
        ({"nvmlDeviceGetRemappedRows": (0, 4, 1, 0)}, "gpu.row_remap", CheckStatus.FAIL),
        ({"nvmlDeviceGetRemappedRows": (0, 4, 0, 1)}, "gpu.row_remap", CheckStatus.FAIL),
        ({"nvmlDeviceGetRemappedRows": NONE_THERE}, "gpu.row_remap", CheckStatus.NOT_APPLICABLE),
        (
            {
                "nvmlDeviceGetRemappedRows": NONE_THERE,
                "nvmlDeviceGetRetiredPages": [0x1000, 0x2000],
                "nvmlDeviceGetRetiredPagesPendingStatus": 1,
            },
            "gpu.row_remap",
            CheckStatus.FAIL,
        ),
        ({real.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: 2}, "gpu.recovery_action", CheckStatus.FAIL),
        ({real.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: 99}, "gpu.recovery_action", CheckStatus.FAIL),
        ({real.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: NONE_THERE}, "gpu.recovery_action", CheckStatus.NOT_APPLICABLE),
    ],
)
def test_each_check_is_decided_as_from_nvidia_smi(
    collect: Callable[..., Inventory | None], answers: dict[Any, Any], check: str, status: CheckStatus
) -> None:
    found = collect(Card({**ampere().answers, **answers}))

    assert statuses(found)[check] is status


def test_a_lost_gpu_stays_in_the_list_by_what_it_still_says(collect: Callable[..., Inventory | None]) -> None:
    lost = Fail("NVML_ERROR_GPU_IS_LOST")
    known = {"nvmlDeviceGetSerial", "nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo"}
    found = collect(Card({name: lost for name in BASE if name not in known}), ampere())

    assert found is not None
    assert [one.serial for one in found.entries] == ["1651000000001", "1651000000001"]
    assert found.entries[0].readings["temperature_celsius"] is None
    of_lost = {one.name: (one.status, one.code) for one in found.checks[:4]}
    assert of_lost["gpu.responding"] == (CheckStatus.FAIL, "gpu.fallen_off_bus")
    assert of_lost["gpu.ecc"][0] is CheckStatus.UNKNOWN


@pytest.mark.parametrize("error", ["NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_UNKNOWN", "NVML_ERROR_RESET_REQUIRED"])
def test_a_gpu_whose_handle_is_refused_is_counted_all_the_same(
    collect: Callable[..., Inventory | None], error: str
) -> None:
    found = collect(Fail(error), ampere())

    assert found is not None
    assert (len(found.entries), found.attached, found.is_partial) == (2, 2, False)
    assert (found.entries[0].serial, found.entries[0].slot) == (None, None)
    assert found.checks[3].status is CheckStatus.FAIL
    assert found.checks[3].name == "gpu.responding"


def test_the_slices_of_a_gpu_are_named_and_are_no_devices(collect: Callable[..., Inventory | None]) -> None:
    card = ampere(nvmlDeviceGetMigMode=[1, 1])
    card.slices = {0: "MIG-aaaa", 3: "MIG-bbbb"}

    found = collect(card)

    assert found is not None
    assert found.entries[0].slices == ("MIG-aaaa", "MIG-bbbb")
    assert found.entries[0].readings["mig_devices"] == 2


def test_what_an_older_library_does_not_have_is_absent(collect: Callable[..., Inventory | None]) -> None:
    found = collect(
        ampere(), nvmlDeviceGetModuleId=None, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION=None, nvmlDeviceGetRemappedRows=None
    )

    assert found is not None
    assert found.entries[0].module_id is None
    assert statuses(found)["gpu.recovery_action"] is CheckStatus.NOT_APPLICABLE
    assert statuses(found)["gpu.row_remap"] is CheckStatus.UNKNOWN


def refuse(*_: object) -> Any:
    raise Error(real.NVML_ERROR_DRIVER_NOT_LOADED)


@pytest.mark.parametrize("changes", [{"nvmlInit": refuse}, {"nvmlDeviceGetCount": refuse}])
def test_without_a_driver_nvidia_smi_is_to_be_asked(
    collect: Callable[..., Inventory | None], changes: dict[str, Any]
) -> None:
    assert collect(ampere(), **changes) is None


def test_no_gpu_at_all_is_no_list(collect: Callable[..., Inventory | None]) -> None:
    assert collect() is None


def test_without_the_library_nvidia_smi_is_to_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)

    assert nvml.collect() is None


def test_the_library_is_closed_again_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    module = fake(ampere(), nvmlDeviceGetCount=refuse)
    monkeypatch.setitem(sys.modules, "pynvml", module)

    nvml.collect()

    assert module.calls == ["init", "shutdown"]


class SramStatus(Structure):
    """As pynvml's, of which the agent reads one field."""

    _fields_ = (("version", c_uint), ("bThresholdExceeded", c_uint))


@pytest.mark.parametrize(
    ("exceeded", "reading", "status"),
    [
        (1, "Yes", CheckStatus.FAIL),
        (0, "No", CheckStatus.PASS),
        (Fail("NVML_ERROR_NOT_SUPPORTED"), None, CheckStatus.PASS),
        (Fail("NVML_ERROR_ARGUMENT_VERSION_MISMATCH"), None, CheckStatus.PASS),
        (Fail("NVML_ERROR_UNKNOWN"), None, CheckStatus.UNKNOWN),
    ],
    ids=("over", "below", "unsupported", "other version", "unknown"),
)
def test_the_srams_threshold_is_asked_for(
    collect: Callable[..., Inventory | None], exceeded: int | Fail, reading: str | None, status: CheckStatus
) -> None:
    def answer(_card: Card, pointer: Any) -> int:
        pointer._obj.bThresholdExceeded = given(exceeded)
        return 0

    listed = collect(ampere(), c_nvmlEccSramErrorStatus_v1_t=SramStatus, nvmlDeviceGetSramEccErrorStatus=answer)

    assert listed is not None
    assert listed.entries[0].readings["sram_threshold_exceeded"] == reading
    assert statuses(listed)["gpu.ecc"] is status
