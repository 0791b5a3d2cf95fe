# SPDX-License-Identifier: Apache-2.0
"""Are the EFAs of a kernel listed, and is the link of each judged by its network device and never by its port?"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from registry.collectors import efa_sysfs
from registry.collectors.sysfs import MAX_MEMBERS, MAX_TAR_BYTES
from registry.domain.errors import PartUnreadable
from registry.domain.reports import CheckResult, CheckStatus, Inventory
from tests.collectors.adapters import PACKED, PACKED_NET, ZERO_GUID, Efa, pack, tar_of, write_sysfs


def never(command: Sequence[str]) -> bytes:
    raise AssertionError(command)


def live(root: Path) -> Inventory:
    return efa_sysfs.collect(root, never)


def packed(root: Path) -> Inventory:
    return efa_sysfs.parse(pack(root))


def packed_plain(root: Path) -> Inventory:
    return efa_sysfs.parse(pack(root, zipped=False, padded=False))


SOURCES = pytest.mark.parametrize("read", [live, packed, packed_plain])
Reader = Callable[[Path], Inventory]


def links(inventory: Inventory) -> dict[str | None, CheckStatus]:
    return {check.device: check.status for check in inventory.checks}


@SOURCES
def test_an_efa_is_listed_with_all_that_the_kernel_says(tmp_path: Path, read: Reader) -> None:
    inventory = read(write_sysfs(tmp_path, Efa(0), Efa(1)))

    first, second = inventory.entries
    assert (first.kind, first.vendor, first.slot, first.name) == ("efa", "amazon", "0000:10:1b.0", "rdmap16s27")
    assert (first.mac, first.gid) == ("02:5a:00:00:00:01", "fe80:0000:0000:0000:005a:00ff:fe00:0001")
    assert (first.node_guid, first.serial, first.uuid) == (ZERO_GUID, None, None)
    assert (first.model, first.firmware) == ("EFA 1d0f:efa1", {"efa": "0.0.0.0"})
    counters = {"tx_bytes": 7, "rx_drops": 0, "lifespan": 12}
    assert first.readings == {**counters, "port_state": "ACTIVE", "interface": "eth0", "link_state": "UP"}
    assert (second.slot, second.mac) == ("0000:11:1b.0", "02:5a:00:00:00:02")
    assert links(inventory) == {"0000:10:1b.0": CheckStatus.PASS, "0000:11:1b.0": CheckStatus.PASS}
    assert inventory.warnings == ()


@SOURCES
def test_other_cards_are_remarked_on_whatever_they_are_called(tmp_path: Path, read: Reader) -> None:
    root = write_sysfs(tmp_path, Efa(0), others=True)
    if read is not live:
        shutil.rmtree(root / "sys/devices/virtual/infiniband")

    inventory = read(root)

    assert [entry.name for entry in inventory.entries] == ["rdmap16s27"]
    (notice,) = inventory.warnings
    assert notice.code == "not_an_efa"
    assert "efa_7, ibp193s0" in notice.message
    assert set(links(inventory)) == {"0000:10:1b.0"}


@SOURCES
@pytest.mark.parametrize(
    ("efa", "status", "words"),
    [
        (Efa(operstate="down", carrier="0"), CheckStatus.FAIL, "eth0 is down"),
        (Efa(operstate="down", carrier=""), CheckStatus.FAIL, "eth0 is down"),
        (Efa(operstate="lowerlayerdown"), CheckStatus.FAIL, "eth0 is down"),
        (Efa(operstate="up", carrier="0"), CheckStatus.FAIL, "eth0 is down"),
        (Efa(operstate="unknown", carrier="1"), CheckStatus.PASS, "eth0 is up"),
        (Efa(operstate="unknown", carrier=""), CheckStatus.UNKNOWN, "cannot be read"),
        (Efa(operstate="", carrier=""), CheckStatus.UNKNOWN, "cannot be read"),
        (Efa(operstate="dormant"), CheckStatus.UNKNOWN, "cannot be read"),
        (Efa(interface=None), CheckStatus.NOT_APPLICABLE, "EFA-only"),
        (Efa(port="1: DOWN"), CheckStatus.FAIL, "port is DOWN"),
        (Efa(port=None), CheckStatus.UNKNOWN, "no port"),
    ],
)
def test_the_link_is_what_the_network_device_says(
    tmp_path: Path, read: Reader, efa: Efa, status: CheckStatus, words: str
) -> None:
    inventory = read(write_sysfs(tmp_path, efa, Efa(1)))

    bad, good = inventory.checks
    assert (bad.name, bad.device, bad.status) == ("efa.link", "0000:10:1b.0", status)
    assert words in (bad.message or "")
    assert bad.code == ("efa.link_down" if status is CheckStatus.FAIL else None)
    assert (good.device, good.status) == ("0000:11:1b.0", CheckStatus.PASS)
    assert len(inventory.entries) == 2


def test_an_active_port_without_sight_of_the_network_proves_nothing(tmp_path: Path) -> None:
    inventory = efa_sysfs.parse(pack(write_sysfs(tmp_path, Efa()), *PACKED))

    (check,) = inventory.checks
    assert check.status is CheckStatus.UNKNOWN
    assert "/sys/class/net" in (check.message or "")
    (notice,) = inventory.warnings
    assert notice.code == "links_unread"
    assert efa_sysfs.TAR_COMMAND in notice.message


def test_a_tar_without_efas_has_no_links_to_read(tmp_path: Path) -> None:
    data = pack(write_sysfs(tmp_path), "bus/pci/devices/*/vendor", "bus/pci/devices/*/device", *PACKED)

    assert "links_unread" not in {notice.code for notice in efa_sysfs.parse(data).warnings}


def test_the_documents_name_the_command_that_packs_all_that_is_read() -> None:
    text = (Path(__file__).parents[2] / "docs/bootstrap.md").read_text()

    assert efa_sysfs.TAR_COMMAND in " ".join(text.replace("\\\n", " ").split())


def test_an_efa_whose_gid_cannot_be_read_has_an_unknown_link(tmp_path: Path) -> None:
    root = write_sysfs(tmp_path, Efa())
    next((root / "sys").rglob("gids/0")).unlink()

    (check,) = live(root).checks

    assert check.status is CheckStatus.UNKNOWN
    assert "MAC" in (check.message or "")


def test_a_vlan_on_top_has_the_same_mac_and_no_say(tmp_path: Path) -> None:
    root = write_sysfs(tmp_path, Efa(operstate="down", carrier="0"))
    vlan = root / "sys/class/net/a.100"
    vlan.mkdir()
    for name, text in (("address", Efa().mac), ("operstate", "up"), ("carrier", "1")):
        (vlan / name).write_text(text)

    inventory = live(root)

    assert inventory.entries[0].readings["interface"] == "eth0"
    assert links(inventory) == {"0000:10:1b.0": CheckStatus.FAIL}


def test_an_efa_without_its_driver_is_listed_and_its_link_unknown(tmp_path: Path) -> None:
    inventory = live(write_sysfs(tmp_path, Efa(0), Efa(1), loaded=False))

    assert [(entry.slot, entry.name) for entry in inventory.entries] == [("0000:10:1b.0", None), ("0000:11:1b.0", None)]
    assert set(links(inventory).values()) == {CheckStatus.UNKNOWN}


def test_a_machine_without_efas_has_nothing_to_look_at(tmp_path: Path) -> None:
    inventory = live(write_sysfs(tmp_path))

    assert inventory.entries == ()
    assert [(check.name, check.status) for check in inventory.checks] == [("efa.link", CheckStatus.NOT_APPLICABLE)]


def test_a_place_that_is_no_sysfs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PartUnreadable, match="/sys/class/infiniband"):
        live(tmp_path)


@SOURCES
def test_counters_are_numbers_and_none_is_a_fault(tmp_path: Path, read: Reader) -> None:
    printed: dict[str, tuple[str, float | None]] = {
        "rdma_write_bytes": ("0", 0),
        "retrans_pkts": ("123456789", 123456789),
        "rx_bytes": ("18446744073709551615", 18446744073709551615),
        "rdma_read_bytes": ("1.047241117296e+12", 1047241117296),
        "half": ("0.5", 0.5),
        "link_downed": ("N/A (no PMA)", None),
        "odd": ("12 apples", None),
    }

    inventory = read(write_sysfs(tmp_path, Efa(counters={name: text for name, (text, _) in printed.items()})))

    readings = inventory.entries[0].readings
    assert {name: readings[name] for name in printed} == {name: number for name, (_, number) in printed.items()}
    assert links(inventory) == {"0000:10:1b.0": CheckStatus.PASS}


@SOURCES
def test_a_renamed_device_stays_in_its_slot(tmp_path: Path, read: Reader) -> None:
    (before,) = read(write_sysfs(tmp_path / "before", Efa(name="efa_0"))).entries
    (after,) = read(write_sysfs(tmp_path / "after", Efa())).entries

    assert (before.name, after.name) == ("efa_0", "rdmap16s27")
    assert replace(before, name=None) == replace(after, name=None)


def test_a_whole_tree_with_its_links_is_followed_inside_the_tar(tmp_path: Path) -> None:
    root = write_sysfs(tmp_path, Efa(0), Efa(1, operstate="down"), others=True)
    links_, files = {}, {}
    for path in sorted((root / "sys").rglob("*")):
        name = f"./{path.relative_to(root)}"
        if path.is_symlink():
            links_[name] = str(path.readlink())
        elif path.is_file():
            files[name] = path.read_bytes()

    inventory = efa_sysfs.parse(tar_of(files, links=links_, zipped=True))

    assert inventory == live(root)


@pytest.mark.parametrize("more", [{}, {"devices/pci0000:10/0000:10:1b.0/infiniband/rdmap16s27/device": "../.."}])
def test_links_alone_do_not_say_what_a_device_is(more: dict[str, str]) -> None:
    path = "devices/pci0000:10/0000:10:1b.0/infiniband/rdmap16s27"
    data = tar_of({}, links={"class/infiniband/rdmap16s27": f"../../{path}", **more})

    with pytest.raises(PartUnreadable, match="a link alone holds no file"):
        efa_sysfs.parse(data)


def test_the_link_to_the_driver_is_enough_to_know_an_efa() -> None:
    path = "devices/pci0000:10/0000:10:1b.0"
    links_ = {
        "class/infiniband/efa_0": f"../../{path}/infiniband/efa_0",
        f"{path}/infiniband/efa_0/device": "../..",
        f"{path}/driver": "../../../bus/pci/drivers/efa",
    }

    (entry,) = efa_sysfs.parse(tar_of({}, links=links_)).entries

    assert (entry.slot, entry.name) == ("0000:10:1b.0", "efa_0")


@pytest.mark.parametrize("before", ["sys/class/infiniband/", "/sys/class/infiniband/", "./infiniband/", "./"])
def test_the_tar_may_begin_anywhere_above_the_devices(before: str) -> None:
    said = "DRIVER=efa\nPCI_ID=1D0F:EFA2\nPCI_SLOT_NAME=0000:00:06.0\n"
    data = tar_of({f"{before}rdmap0s6/device/uevent": said.encode(), f"{before}rdmap0s6/node_guid": b"0:0:0:0"})

    (entry,) = efa_sysfs.parse(data).entries

    assert (entry.slot, entry.name, entry.model) == ("0000:00:06.0", "rdmap0s6", "EFA 1d0f:efa2")


def test_an_empty_directory_of_devices_is_an_empty_list() -> None:
    assert efa_sysfs.parse(tar_of({}, folders=("infiniband",))).entries == ()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no whole tar"),
        (b"no tar at all " * 80, "no whole tar"),
        (b"\x1f\x8bno gzip", "gzip data is damaged"),
        (tar_of({}), "no /sys/class/infiniband"),
        (tar_of({"etc/passwd": b"root"}), "no /sys/class/infiniband"),
        (tar_of({"infiniband/x/../../../etc/passwd": b"root"}), "leads outside"),
        (tar_of({"infiniband/" + "a/" * 50 + "b": b""}), "too long"),
        (tar_of({"infiniband/x": b""}, zipped=True)[:-30], "gzip data is cut off"),
        (tar_of({"infiniband/x/hca_type": b"MT4129"})[:1024], "cut off or damaged"),
    ],
)
def test_what_is_no_whole_tar_of_sysfs_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(PartUnreadable, match=reason):
        efa_sysfs.parse(data)


def test_a_tar_is_never_shorter_for_being_cut(tmp_path: Path) -> None:
    whole = pack(write_sysfs(tmp_path, Efa(0), Efa(1)), zipped=False, padded=False)
    end = len(whole.rstrip(b"\0")) // 512 * 512 + 512

    for cut in range(0, end + 1, 512):
        with pytest.raises(PartUnreadable):
            efa_sysfs.parse(whole[:cut])
    assert len(efa_sysfs.parse(whole[: end + 512]).entries) == 2


def test_links_that_circle_or_leave_the_tree_lead_nowhere(tmp_path: Path) -> None:
    uevent = b"DRIVER=efa\nPCI_SLOT_NAME=0000:00:06.0\n"
    circle = {"infiniband/x/device/driver": "driver", "infiniband/x/ports": "../../../../../../etc"}
    files = {"infiniband/x/device/uevent": uevent, "infiniband/x/ports/1/state": b"4: ACTIVE"}
    (entry,) = efa_sysfs.parse(tar_of(files, links={**circle, "infiniband/x/fw_ver": "/etc/hostname"})).entries
    assert (entry.slot, entry.firmware) == ("0000:00:06.0", {})

    outside = tmp_path / "secret"
    outside.write_text("6.6.6")
    root = write_sysfs(tmp_path / "machine", Efa())
    firmware = next((root / "sys").rglob("fw_ver"))
    firmware.unlink()
    firmware.symlink_to(outside)
    assert live(root).entries[0].firmware == {}


def test_a_bomb_is_refused_before_it_unfolds() -> None:
    with pytest.raises(PartUnreadable, match="unpacked"):
        efa_sysfs.parse(tar_of({"infiniband/x/node_guid": bytes(MAX_TAR_BYTES)}, zipped=True))
    with pytest.raises(PartUnreadable, match="members"):
        efa_sysfs.parse(tar_of({"infiniband/x/node_guid": b""})[:512] * (MAX_MEMBERS + 1))


def test_a_large_member_is_read_by_the_page() -> None:
    data = tar_of({"infiniband/x/hca_type": b"M" * 9_000_000, "infiniband/x/ports/1/state": b"4: ACTIVE"}, zipped=True)

    assert efa_sysfs.parse(data).entries == ()


@pytest.mark.skipif(shutil.which("bash") is None or shutil.which("tar") is None, reason="needs bash and tar")
def test_the_command_in_the_guide_packs_what_is_read(tmp_path: Path) -> None:
    root = write_sysfs(tmp_path, Efa(0), Efa(1, operstate="down", carrier="0"))
    command = efa_sysfs.TAR_COMMAND.replace("/sys", str(root / "sys"))

    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, capture_output=True)

    assert efa_sysfs.parse((tmp_path / "efa.tar.gz").read_bytes()) == live(root)


def test_more_of_the_tree_never_makes_a_link_better(tmp_path: Path) -> None:
    root = write_sysfs(tmp_path, Efa(operstate="down", carrier="0"))

    statuses = [efa_sysfs.parse(pack(root, *PACKED, *more)).checks for more in ((), PACKED_NET)]

    assert [one.status for (one,) in statuses] == [CheckStatus.UNKNOWN, CheckStatus.FAIL]
    assert all(isinstance(one, CheckResult) for (one,) in statuses)
