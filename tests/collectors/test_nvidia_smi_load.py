# SPDX-License-Identifier: Apache-2.0
"""Are power and utilisation read from whatever nvidia-smi prints, so that temperatures can be compared?"""

from __future__ import annotations

import pytest

from registry.collectors import nvidia_smi_csv, nvidia_smi_q, nvidia_smi_xml
from registry.domain.reports import DeviceEntry, Reading
from tests.collectors.documents import q_document, xml_document
from tests.collectors.machines import h100_gpus


def loads(entry: DeviceEntry) -> tuple[Reading, Reading]:
    return entry.readings.get("power_watts"), entry.readings.get("utilization_percent")


def xml(block: str) -> DeviceEntry:
    document = xml_document(h100_gpus(1)).replace(b"<processes>", block.encode() + b"<processes>")
    return nvidia_smi_xml.parse(document).entries[0]


def q(block: str) -> DeviceEntry:
    document = q_document(h100_gpus(1)).replace(b"    Processes", block.encode() + b"    Processes")
    return nvidia_smi_q.parse(document).entries[0]


NEWER_XML = (
    "<utilization><gpu_util>97 %</gpu_util><memory_util>40 %</memory_util></utilization>"
    "<gpu_power_readings><average_power_draw>{0}</average_power_draw><instant_power_draw>{1}</instant_power_draw>"
    "</gpu_power_readings><gpu_memory_power_readings><average_power_draw>39.71 W</average_power_draw>"
    "</gpu_memory_power_readings><module_power_readings><instant_power_draw>900 W</instant_power_draw>"
    "</module_power_readings>"
)
OLDER_XML = "<power_readings><power_state>P0</power_state><power_draw>{0}</power_draw></power_readings>"


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (NEWER_XML.format("612.01 W", "640.25 W"), (640.25, 97)),
        (NEWER_XML.format("N/A", "77.88 W"), (77.88, 97)),
        (NEWER_XML.format("N/A", "N/A"), (None, 97)),
        (OLDER_XML.format("67.01 W"), (67.01, None)),
        (OLDER_XML.format("[Unknown Error]"), (None, None)),
        ("<power_readings>N/A</power_readings><utilization>N/A</utilization>", (None, None)),
    ],
)
def test_the_document_gives_the_gpus_own_power(block: str, expected: tuple[Reading, Reading]) -> None:
    assert loads(xml(block)) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("Average Power Draw : 612.01 W", "Instantaneous Power Draw : 640.25 W"), 640.25),
        (("Average Power Draw : N/A", "Instantaneous Power Draw : 77.88 W"), 77.88),
        (("Power Draw : 17.62 W",), 17.62),
    ],
)
def test_the_text_gives_it_too(lines: tuple[str, ...], expected: float) -> None:
    block = "    Utilization\n        Gpu      : 98 %\n    GPU Power Readings\n"

    assert loads(q(block + "".join(f"        {line}\n" for line in lines))) == (expected, 98)


@pytest.mark.parametrize(
    ("power", "use", "expected"),
    [
        ("612.34 W", "97 %", (612.34, 97)),
        ("612.34", "97", (612.34, 97)),
        ("[N/A]", "[N/A]", (None, None)),
        ("0.00 W", "0 %", (0.0, 0)),
        ("9223372036854775794", "2147483632", (None, None)),
        ("65535 W", "101 %", (None, None)),
        ("-1 W", "-1 %", (None, None)),
        ("612,34 W", "97", None),
        ("ERR!", "ERR!", (None, None)),
        ("٣ W", "٣ %", (None, None)),
    ],
)
def test_the_table_gives_it_with_or_without_its_unit(
    power: str, use: str, expected: tuple[Reading, Reading] | None
) -> None:
    if expected is None:
        power, expected = f'"{power}"', (None, 97)
    head = "serial, temperature.gpu, power.draw [W], utilization.gpu [%]"

    entry = nvidia_smi_csv.parse(f"{head}\n1651000000001, 61, {power}, {use}\n".encode()).entries[0]

    assert loads(entry) == expected
