# SPDX-License-Identifier: Apache-2.0
"""Do ibv_devinfo, fi_info and ibstat say which EFAs there are, and no more than they can know?"""

from __future__ import annotations

from pathlib import Path

import pytest

from registry.collectors import fi_info, ibstat, ibv_devinfo
from registry.collectors.rdma import is_efa, read_number, slot_of_name
from registry.collectors.running import ToolMissing
from registry.domain.errors import PartUnreadable
from registry.domain.reports import CheckStatus
from tests.collectors.adapters import ZERO_GUID, Efa
from tests.collectors.adapters import fi_info as fi_info_text
from tests.collectors.adapters import ibv_devinfo as ibv_text


@pytest.mark.parametrize(
    ("name", "slot"),
    [
        ("rdmap16s27", "0000:10:1b.0"),
        ("rdmap160s27", "0000:a0:1b.0"),
        ("rdmap0s6", "0000:00:06.0"),
        ("rdmap0s6f1", "0000:00:06.1"),
        ("rdmaP4660p1s0", "1234:01:00.0"),
        ("efa_0", None),
        ("ibp193s0", None),
        ("rdmap300s0", None),
        ("rdmap0s32", None),
        ("rdmap1s0x", None),
    ],
)
def test_a_name_that_was_made_from_a_place_gives_it_back(name: str, slot: str | None) -> None:
    assert slot_of_name(name) == slot


@pytest.mark.parametrize(
    ("vendor", "product", "driver", "answer"),
    [
        (0x1D0F, 0xEFA0, None, True),
        (0x1D0F, 0xEFA4, "vfio-pci", True),
        (None, None, "efa", True),
        (0x1D0F, 0xEC20, "ena", False),
        (0x15B3, 0xEFA0, "mlx5_core", False),
        (None, None, None, False),
    ],
)
def test_vendor_and_driver_decide(vendor: int | None, product: int | None, driver: str | None, answer: bool) -> None:
    assert is_efa(vendor, product, driver) is answer


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("-1", -1), ("1e+03", 1000), ("0.25", 0.25), ("1e99", 10**99), ("٣", None), ("1e", None), ("", None)],
)
def test_a_counter_is_a_number_or_nothing(text: str, number: float | None) -> None:
    read = read_number(text)
    assert read == (pytest.approx(number) if number is not None else None)


@pytest.mark.parametrize("blanks", [False, True])
def test_ibv_devinfo_lists_the_efas(blanks: bool) -> None:
    inventory = ibv_devinfo.parse(ibv_text(Efa(0), Efa(1, name="efa_1"), blanks=blanks))

    first, second = inventory.entries
    assert (first.kind, first.vendor, first.slot, first.name) == ("efa", "amazon", "0000:10:1b.0", "rdmap16s27")
    assert (first.gid, first.node_guid) == ("fe80:0000:0000:0000:005a:00ff:fe00:0001", ZERO_GUID)
    assert (first.firmware, first.model) == ({"efa": "0.0.0.0"}, "EFA 1d0f:efa1")
    assert (first.mac, first.serial, first.uuid) == (None, None, None)
    assert first.readings["port_state"] == "ACTIVE"
    assert (second.slot, second.name) == (None, "efa_1")


def test_an_active_port_in_ibv_devinfo_says_nothing_and_a_bad_one_fails() -> None:
    inventory = ibv_devinfo.parse(ibv_text(Efa(0), Efa(1, port="1: DOWN"), Efa(2, port=None)))

    (check,) = inventory.checks
    assert (check.name, check.device, check.status) == ("efa.link", "0000:11:1b.0", CheckStatus.FAIL)
    assert len(inventory.entries) == 3


def test_the_cards_of_others_are_not_listed_even_under_an_efas_name() -> None:
    text = ibv_text(Efa(0)) + ibv_text(Efa(1, name="efa_1"), Efa(2, name="ibp193s0"), vendor="0x02c9")

    inventory = ibv_devinfo.parse(text)

    assert [entry.name for entry in inventory.entries] == ["rdmap16s27"]
    assert "efa_1" in inventory.warnings[0].message
    assert "ibp193s0" in inventory.warnings[0].message


def test_no_device_is_an_empty_list() -> None:
    assert ibv_devinfo.parse(b"No IB devices found\n").entries == ()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"\xff\xfe", "not text"),
        (b"hca_id:\trdmap16s27\n\ttransport:\tunspec", "cut off"),
        (ibv_text(Efa(0)) * 2, "listed twice"),
        (ibv_text(Efa(0)) + b"Failed to open device\n", "Failed to open device"),
        (b"Failed to get IB devices list: Function not implemented\n", "Failed to get"),
        (b"\tvendor_id:\t0x1d0f\n", "does not list"),
        (b"hca_id:\t" + b"x" * 300 + b"\n", "hca_id"),
        (b"nvidia-smi has failed\n", "does not list"),
    ],
)
def test_what_is_no_whole_list_of_ibv_devinfo_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(PartUnreadable, match=reason):
        ibv_devinfo.parse(data)


@pytest.mark.parametrize("suffixes", [("-rdm",), ("-rdm", "-dgrm"), ("-rdm", "-dgrm", "")])
def test_fi_info_counts_a_card_once(suffixes: tuple[str, ...]) -> None:
    inventory = fi_info.parse(fi_info_text(Efa(0), Efa(1), suffixes=suffixes))

    assert [(entry.name, entry.slot, entry.gid) for entry in inventory.entries] == [
        ("rdmap16s27", "0000:10:1b.0", Efa(0).gid),
        ("rdmap17s27", "0000:11:1b.0", Efa(1).gid),
    ]
    assert inventory.checks == ()


def test_a_fabric_without_an_address_gives_no_gid() -> None:
    (entry,) = fi_info.parse(fi_info_text(Efa(0), fabric="efa-direct")).entries

    assert (entry.slot, entry.gid) == ("0000:10:1b.0", None)


def test_other_providers_are_not_efas() -> None:
    other = b"provider: tcp\n    fabric: 10.0.0.0/16\n    domain: eth0\n    version: 204.0\n"

    inventory = fi_info.parse(other + fi_info_text(Efa(0)) + other)

    assert [entry.name for entry in inventory.entries] == ["rdmap16s27"]
    assert "provider tcp" in inventory.warnings[0].message


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\n", "empty"),
        (b"fi_getinfo: -61 (No data available)\n", "no provider"),
        (b"provider: efa\n    fabric: EFA-fe80::1\n", "names no domain"),
        (b"provider: efa\n    domain: -rdm\n", "names no domain"),
        (b"provider: efa\n    domain: a-rdm\n    domain: b-rdm\n", "second time"),
        (b"    domain: rdmap0s6-rdm\n", "not of fi_info"),
        (b"---\nfi_info:\n    caps: [ FI_MSG ]\n", "without -v"),
        (b"provider: efa\n    domain: " + b"x" * 300 + b"\n", "domain reads"),
    ],
)
def test_what_is_no_whole_list_of_fi_info_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(PartUnreadable, match=reason):
        fi_info.parse(data)


IBSTAT = """CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.39.1002
\tNode GUID: 0xa088c20300aabbcc
\tPort 1:
\t\tState: {state}
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tPort GUID: 0x0000000000000000
\t\tLink layer: InfiniBand
CA 'efa_0'
\tCA type:{blank}
\tNumber of ports: 1
\tFirmware version:{blank}
\tNode GUID: 0x0000000000000000
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 100
\t\tLink layer: Unknown
"""
IBSTATUS = """Infiniband device 'mlx5_0' port 1 status:
\tdefault gid:\t unknown
\tstate:\t\t 4: ACTIVE
\tphys state:\t 5: LinkUp
\trate:\t\t 200 Gb/sec (4X HDR)
\tlink_layer:\t InfiniBand

Infiniband device 'mlx5_0' port 2 status:
\tstate:\t\t 1: DOWN
\tphys state:\t 2: Polling
"""


def test_ibstat_tells_states_and_lists_nothing() -> None:
    findings = ibstat.parse(IBSTAT.format(state="Down", blank=" ").encode())

    assert findings.checks == ()
    assert set(findings.readings) == {"mlx5_0", "efa_0"}
    assert findings.readings["mlx5_0"] == {
        "card_type": "MT4129",
        "firmware": "28.39.1002",
        "node_guid": "0xa088c20300aabbcc",
        "port_1_state": "Down",
        "port_1_phys_state": "LinkUp",
        "port_1_rate": "400",
        "port_1_link_layer": "InfiniBand",
    }
    assert findings.readings["efa_0"]["card_type"] is None
    (notice,) = findings.warnings
    assert (notice.code, "Port 1 of mlx5_0 is Down" in notice.message) == ("rdma_port_inactive", True)


def test_ibstatus_is_the_same_in_another_form() -> None:
    findings = ibstat.parse(IBSTATUS.encode())

    assert findings.readings["mlx5_0"]["port_1_state"] == "ACTIVE"
    assert findings.readings["mlx5_0"]["port_2_phys_state"] == "Polling"
    assert [notice.message for notice in findings.warnings] == ["Port 2 of mlx5_0 is DOWN (physical state Polling)."]


def test_ibstatus_is_asked_where_ibstat_is_missing() -> None:
    def run(command: object) -> bytes:
        if command == ["ibstat"]:
            raise ToolMissing
        return IBSTATUS.encode()

    assert set(ibstat.collect(Path("/nowhere"), run).readings) == {"mlx5_0"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b" ", "empty"),
        (b"nothing of the kind\n", "not of ibstat"),
        (IBSTAT.format(state="Active", blank="").encode() * 2, "listed twice"),
        (IBSTATUS.encode() * 2, "listed twice"),
        (b"CA 'mlx5_0'\nwhat is this\n", "not of ibstat"),
        (b"CA ''\n", "listed twice"),
    ],
)
def test_what_is_not_of_ibstat_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(PartUnreadable, match=reason):
        ibstat.parse(data)


def test_live_each_tool_is_run_as_its_guide_says() -> None:
    said = {("ibv_devinfo", "-v"): ibv_text(Efa()), ("fi_info", "-p", "efa"): fi_info_text(Efa())}

    for module in (ibv_devinfo, fi_info):
        inventory = module.collect(Path("/nowhere"), lambda command: said[tuple(command)])
        assert [entry.name for entry in inventory.entries] == ["rdmap16s27"]
