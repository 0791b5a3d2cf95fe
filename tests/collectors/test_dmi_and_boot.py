# SPDX-License-Identifier: Apache-2.0
"""Is a machine told by its firmware, its boot and its instance, and by nothing that was not there?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from registry.collectors import boot, dmi
from registry.collectors.running import Runner, ToolFailed, ToolMissing
from registry.domain.errors import PartUnreadable

DMIDECODE = """# dmidecode 3.5
Getting SMBIOS data from sysfs.
SMBIOS 3.5.0 present.

Handle 0x0001, DMI type 1, 27 bytes
System Information
\tManufacturer: Acme Systems
\tVersion: Not Specified
\tSerial Number: {serial}
\tUUID: 11112222-3333-4444-5555-666677778888
\tFamily: Not Specified

Handle 0x0002, DMI type 2, 15 bytes
Base Board Information
\tSerial Number: BOARD-7

Handle 0x0003, DMI type 3, 22 bytes
Chassis Information
\tSerial Number: CHASSIS-7
"""
UUID = "11112222-3333-4444-5555-666677778888"
BOOT_ID = "0b6cf3a1-5b1c-4f4e-9a51-2f6f6f3f8d11"


def missing(command: Sequence[str]) -> bytes:
    raise ToolMissing(command)


def failing(command: Sequence[str]) -> bytes:
    raise ToolFailed(command)


def write(root: Path, **texts: str) -> Path:
    folder = root / "sys/class/dmi/id"
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n")
    return root


def write_boot(root: Path, boot_id: str = BOOT_ID, stat: str = "cpu  1 2 3\nbtime 1790000000\nprocesses 9\n") -> Path:
    (root / "proc/sys/kernel/random").mkdir(parents=True)
    (root / "proc/sys/kernel/random/boot_id").write_text(f"{boot_id}\n")
    (root / "proc/stat").write_text(stat)
    return root


@pytest.mark.parametrize("serial", ["SYS-0007", "Not Specified", ""])
def test_dmidecode_gives_the_system_as_printed_and_not_its_board_or_chassis(serial: str) -> None:
    assert dmi.parse(DMIDECODE.format(serial=serial).encode()).host == {"dmi": {"serial": serial, "uuid": UUID}}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"# No SMBIOS nor DMI entry point found, sorry.\n", "no System Information"),
        (b"/dev/mem: Permission denied\n", "no System Information"),
        (DMIDECODE.format(serial="1").encode() * 2, "more than one"),
        (DMIDECODE.format(serial="9" * 300).encode(), "serial reads"),
    ],
)
def test_what_holds_no_system_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(PartUnreadable, match=reason):
        dmi.parse(data)


def test_sysfs_is_enough_where_root_reads_it(tmp_path: Path) -> None:
    root = write(tmp_path, product_serial="SYS-0007", product_uuid=UUID, chassis_serial="CHASSIS-7")

    findings = dmi.collect(root, missing)

    assert findings.host == {"dmi": {"serial": "SYS-0007", "uuid": UUID}}
    assert findings.warnings == ()


def test_dmidecode_is_asked_for_what_sysfs_does_not_give(tmp_path: Path) -> None:
    root = write(tmp_path, product_serial="SYS-0007")

    findings = dmi.collect(root, lambda _: DMIDECODE.format(serial="other").encode())

    assert findings.host == {"dmi": {"serial": "SYS-0007", "uuid": UUID}}


@pytest.mark.parametrize("run", [missing, failing, lambda _: b"nothing"])
def test_without_either_the_host_is_left_out_and_the_reason_given(tmp_path: Path, run: Runner) -> None:
    findings = dmi.collect(write(tmp_path, product_serial="\x07bell"), run)

    assert findings.host == {}
    assert [notice.code for notice in findings.warnings] == ["dmi_unreadable"]


def test_a_boot_is_its_id_and_its_beginning(tmp_path: Path) -> None:
    found = boot.collect(write_boot(tmp_path), missing)

    assert found == boot.Boot(BOOT_ID, datetime.fromtimestamp(1790000000, UTC), None)


@pytest.mark.parametrize("stat", ["", "btime soon\n", "btime 99999999999\n", "xbtime 5\n"])
def test_a_boot_without_a_readable_beginning_is_still_a_boot(tmp_path: Path, stat: str) -> None:
    assert boot.collect(write_boot(tmp_path, stat=stat), missing) == boot.Boot(BOOT_ID, None, None)


@pytest.mark.parametrize("boot_id", ["", "boot", "00000000-0000-0000-0000-000000000000", f"{BOOT_ID} x"])
def test_nothing_is_said_without_a_boot_id(tmp_path: Path, boot_id: str) -> None:
    with pytest.raises(PartUnreadable, match="boot_id"):
        boot.collect(write_boot(tmp_path, boot_id=boot_id), missing)


def test_no_proc_is_no_boot(tmp_path: Path) -> None:
    with pytest.raises(PartUnreadable, match="mount /proc"):
        boot.collect(tmp_path, missing)


@pytest.mark.parametrize(
    ("texts", "provider_id"),
    [
        ({"board_asset_tag": "i-0123456789abcdef0", "product_uuid": UUID}, "i-0123456789abcdef0"),
        ({"board_asset_tag": "i-01234567"}, "i-01234567"),
        ({"board_asset_tag": "Asset-1234567890", "product_uuid": UUID.upper()}, f"dmi:{UUID}"),
        ({"board_asset_tag": "Not Specified", "product_uuid": "00000000-0000-0000-0000-000000000000"}, None),
        ({"product_uuid": "Not Settable"}, None),
        ({}, None),
    ],
)
def test_the_instance_is_told_by_its_firmware(tmp_path: Path, texts: dict[str, str], provider_id: str | None) -> None:
    assert boot.read_provider_id(write(tmp_path, **texts)) == provider_id


def test_what_somebody_set_stands_before_what_the_machine_says(tmp_path: Path) -> None:
    root = write_boot(write(tmp_path, board_asset_tag="i-0123456789abcdef0"))

    assert boot.collect(root, missing, "aws:///us-east-1a/i-0abc").provider_id == "aws:///us-east-1a/i-0abc"
    assert boot.collect(root, missing, " ").provider_id == "i-0123456789abcdef0"
