# SPDX-License-Identifier: Apache-2.0
"""Group I: heat. Is a GPU called hot only against neighbours that do the same work, and is a blank no temperature?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.conftest import GAP_SECONDS, World, card, one_engine


def gpus(*readings: dict[str, Any]) -> list[dict[str, Any]]:
    return [card(number, readings=read) for number, read in enumerate(readings)]


def at(celsius: object, watts: object = 640, percent: object = 99) -> dict[str, Any]:
    return {"temperature_celsius": celsius, "power_watts": watts, "utilization_percent": percent}


def watch(world: World, devices: list[dict[str, Any]], *, seconds: int = 400) -> dict[str, Any]:
    """Let the node report the same again and again for so long, and return its last answer."""
    answer = world.report("node-a", devices)
    for _ in range(seconds // 100):
        world.clock.advance(100)
        answer = world.report("node-a", devices)
    return answer


def thermal(world: World) -> list[dict[str, Any]]:
    return [one["data"] for one in world.events("check.changed") if one["data"]["check"] == "gpu.thermal"]


@one_engine
@pytest.mark.parametrize("blank", [9223372036854775794, 2147483632, 65535, 510, 2112, 0])
def test_c78_a_blank_is_no_temperature_and_moves_no_median(world: World, blank: int) -> None:
    world.expect(4)

    answer = watch(world, gpus(at(40), at(blank), at(41), at(42)))

    assert answer["admission"]["admitted"] is True
    assert thermal(world) == []


@one_engine
def test_c78_a_blank_in_a_table_is_shown_as_null(world: World) -> None:
    world.expect(1)
    head = "serial, uuid, pci.bus_id, temperature.gpu, power.draw [W]\n"
    row = "1650000000001, GPU-aaaa0001-0000-0000-0000-000000000001, 00000000:18:00.0, 9223372036854775794, 65535 W\n"

    world.report_raw(nvidia_smi_csv=(head + row).encode())

    read = world.on()[0]["readings"]
    assert (read["power_watts"], read["temperature_celsius"]) == (None, None)


@one_engine
@pytest.mark.parametrize("blank", [9223372036854775794, 2147483632, 65535, 510, 2112, 0])
def test_c78_a_blank_that_a_node_lists_itself_is_shown_as_null(world: World, blank: int) -> None:
    world.expect(2)

    world.report("node-a", gpus(at(blank, watts=blank), at(41)))

    shown = [one["readings"] for one in world.on()]
    assert [one["temperature_celsius"] for one in shown] == [None, 41]
    assert [one["power_watts"] for one in shown] == [blank if 0 < blank <= 10_000 else None, 640]


@one_engine
def test_c80_a_thermal_warning_is_below_a_failure(world: World) -> None:
    world.expect(2)
    warned = [{"name": "gpu.thermal", "status": "warn", "message": "thermal violation of 0.0 seconds"}]

    world.report("node-a", gpus(at(40), at(41)), checks=warned)
    world.clock.advance(GAP_SECONDS)
    answer = world.report("node-a", gpus(at(40), at(41)), checks=warned)

    assert answer["admission"]["admitted"] is True


@one_engine
def test_c80_a_margin_that_contradicts_the_temperature_decides_nothing(world: World) -> None:
    world.expect(4)
    devices = gpus(at(40), at(41), at(42), {**at(40), "temperature_margin_celsius": -1})

    assert watch(world, devices)["admission"]["admitted"] is True
    assert thermal(world) == []


@pytest.mark.parametrize("hot", [(72, 76), (74, 73)])
def test_c81_where_the_load_is_unknown_there_is_no_outlier(world: World, hot: tuple[int, int]) -> None:
    world.expect(8)
    warmth = [29, hot[0], 33, 41, hot[1], 50, 37, 44]

    answer = watch(world, gpus(*({"temperature_celsius": celsius} for celsius in warmth)))

    assert answer["admission"]["admitted"] is True
    assert thermal(world) == []


@one_engine
def test_c81_two_gpus_at_work_are_not_compared_with_six_that_rest(world: World) -> None:
    world.expect(8)
    warmth = [29, 72, 33, 41, 76, 50, 37, 44]
    reads = [at(celsius) if celsius > 70 else at(celsius, 75, 0) for celsius in warmth]

    assert watch(world, gpus(*reads))["admission"]["admitted"] is True
    assert thermal(world) == []


def test_c81_one_that_is_hotter_at_the_same_work_is_a_warning_once_it_has_lasted(world: World) -> None:
    world.expect(8)
    reads = [at(61), at(62), at(60), at(78), at(61), at(63), at(60), at(62)]

    watch(world, gpus(*reads), seconds=200)
    before = thermal(world)
    answer = watch(world, gpus(*reads), seconds=400)

    assert before == []
    (event,) = thermal(world)
    assert (event["from"], event["to"]) == ("pass", "warn")
    (finding,) = event["findings"]
    assert finding["device"] == card(3)["slot"]
    assert all(text in finding["message"] for text in ("78 °C", "640 W", "17 °C above", "61 °C"))
    assert answer["admission"]["admitted"] is True
    assert answer["pass"]["counted"] is True
