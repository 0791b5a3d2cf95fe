# SPDX-License-Identifier: Apache-2.0
"""Does any input at all to the RDMA readers do more than be read or be refused, and does it end soon?"""

from __future__ import annotations

import gzip
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registry.collectors import boot, dmi, efa_sysfs, fi_info, ibstat, ibv_devinfo, lspci
from registry.domain.errors import PartUnreadable
from registry.domain.reports import Findings, Inventory
from tests.collectors.adapters import Efa, pack, tar_of, write_sysfs
from tests.collectors.adapters import fi_info as fi_info_text
from tests.collectors.adapters import ibv_devinfo as ibv_text
from tests.collectors.adapters import lspci as lspci_text
from tests.collectors.junk import Edit, damaged, edits_of
from tests.collectors.test_dmi_and_boot import DMIDECODE
from tests.collectors.test_rdma_tools import IBSTAT, IBSTATUS

Parser = Callable[[bytes], Inventory | Findings]
EFAS = (Efa(0), Efa(1, name="efa_1"))


def sysfs_tar(*, zipped: bool) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return pack(write_sysfs(Path(folder), *EFAS), zipped=zipped, padded=False)


FORMS: dict[str, tuple[Parser, bytes]] = {
    "efa_sysfs": (efa_sysfs.parse, sysfs_tar(zipped=False)),
    "efa_sysfs.gz": (efa_sysfs.parse, sysfs_tar(zipped=True)),
    "ibv_devinfo": (ibv_devinfo.parse, ibv_text(*EFAS)),
    "fi_info": (fi_info.parse, fi_info_text(*EFAS)),
    "lspci": (lspci.parse, lspci_text(*EFAS, gpus=("0000:53:00.0",), gone=("0000:53:00.0", "0000:11:1b.0"))),
    "ibstat": (ibstat.parse, IBSTAT.format(state="Down", blank=" ").encode()),
    "ibstatus": (ibstat.parse, IBSTATUS.encode()),
    "dmidecode": (dmi.parse, DMIDECODE.format(serial="SYS-7").encode()),
}
PIECES = st.one_of(
    st.binary(max_size=12),
    st.text(max_size=6).map(lambda text: text.encode("utf-8", "replace")),
    st.sampled_from([b"\0", b"\r", b"\n", b"\t", b": ", b"[1d0f:efa0]", b"9" * 5000, b"\xff\xfe", b"../", b"\x1b[0m"]),
    st.sampled_from([b"\nhca_id: x\n", b"\nprovider: efa\n", b"\n00:06.0 A: B\n", b"\nCA 'x'\n", b" (rev ff)"]),
)
EDITS = edits_of(PIECES)
CALM = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def read(parse: Parser, data: bytes) -> Inventory | Findings | None:
    """Parse the data; None when it was refused. What is read can be stored, whatever was sent."""
    try:
        said = parse(data)
    except PartUnreadable as refusal:
        reason = refusal.detail
    else:
        assert all(text.isprintable() for text in texts_of(said))
        return said
    assert 0 < len(reason) < 1000
    assert reason.isprintable()
    return None


def texts_of(said: Inventory | Findings) -> Iterator[str]:
    """All texts that would be kept."""
    yield from (f"{notice.code}{notice.message}" for notice in said.warnings)
    yield from (f"{check.device}{check.message}" for check in said.checks)
    for entry in said.entries if isinstance(said, Inventory) else ():
        assert entry.kind == "efa"
        kept = (entry.name, entry.slot, entry.mac, entry.gid, entry.node_guid, entry.serial, *entry.firmware.values())
        yield from (text for text in (*kept, *entry.readings, *entry.readings.values()) if isinstance(text, str))


@pytest.mark.parametrize("form", FORMS)
@CALM
@given(data=st.binary(max_size=400))
def test_bytes_are_read_or_refused(form: str, data: bytes) -> None:
    read(FORMS[form][0], data)


@pytest.mark.parametrize("form", FORMS)
@CALM
@given(edits=EDITS)
def test_damaged_outputs_are_read_or_refused(form: str, edits: list[Edit]) -> None:
    parse, data = FORMS[form]
    data = damaged(data, edits)
    read(parse, data)


@pytest.mark.parametrize("form", FORMS)
@CALM
@given(where=st.floats(0, 1))
def test_a_cut_output_never_shows_a_device_that_is_not_there(form: str, where: float) -> None:
    parse, data = FORMS[form]
    whole = parse(data)
    part = read(parse, data[: int(where * len(data))])

    if isinstance(part, Inventory) and isinstance(whole, Inventory):
        known = [(entry.name, entry.slot, entry.gid) for entry in whole.entries]
        assert len(part.entries) <= len(known)
        for entry, (name, slot, gid) in zip(part.entries, known, strict=False):
            assert (entry.name, entry.slot) == (name, slot)
            assert entry.gid in {gid, None}


@given(edits=EDITS)
def test_a_damaged_tar_inside_good_gzip_is_read_or_refused(edits: list[Edit]) -> None:
    data = FORMS["efa_sysfs"][1]
    for where, length, piece in edits:
        at = int(where * 20 * 512)
        data = data[:at] + piece + data[at + max(length, len(piece)) :]
    read(efa_sysfs.parse, gzip.compress(data, 1))


@given(data=st.binary(max_size=200))
def test_a_boot_is_read_or_refused(data: bytes) -> None:
    boot.parse_boot_time(data)
    boot_id = None
    with suppress(PartUnreadable):
        boot_id = boot.parse_boot_id(data)
    assert boot_id is None or len(boot_id) == 36


SIZE = 16 * 1024 * 1024


def filled(line: bytes, before: bytes = b"") -> bytes:
    return before + line * ((SIZE - len(before)) // len(line))


FLOODS: dict[str, tuple[Parser, Callable[[], bytes]]] = {
    "one line for ibv_devinfo": (ibv_devinfo.parse, lambda: b"hca_id: " + b" " * SIZE),
    "many lines for ibv_devinfo": (ibv_devinfo.parse, lambda: filled(b"\tstate: x\n", b"hca_id: a\n")),
    "many devices for ibv_devinfo": (ibv_devinfo.parse, lambda: filled(b"hca_id: a\n\tvendor_id: 0x1d0f\n")),
    "many entries for fi_info": (fi_info.parse, lambda: filled(b"provider: efa\n domain: a-rdm\n")),
    "one line for lspci": (lspci.parse, lambda: b"00:06.0 A: B " + b"[1d0f:efa0]" * (SIZE // 11)),
    "many lines for lspci": (lspci.parse, lambda: filled(b"\t[SN] Serial number: 1\n", b"00:06.0 A: B\n")),
    "brackets for lspci": (lspci.parse, lambda: filled(b"00:06.0 " + b"(rev [1d0f:" * 360 + b"\n")),
    "many lines for ibstat": (ibstat.parse, lambda: filled(b"Rate: 1\n", b"CA 'a'\n")),
    "many lines for dmidecode": (dmi.parse, lambda: filled(b"\tUUID: 1\n", b"Handle 0x1, DMI type 1, 2 bytes\n")),
    "zeros for the tar": (efa_sysfs.parse, lambda: bytes(SIZE)),
    "headers for the tar": (efa_sysfs.parse, lambda: tar_of({"infiniband/a/b": b""})[:512] * (SIZE // 512)),
    "bytes for the tar": (efa_sysfs.parse, lambda: b"\x1f\x8b" + b"\x08" * SIZE),
    "a bomb for the tar": (efa_sysfs.parse, lambda: gzip.compress(bytes(128 * 1024 * 1024), 1)),
}


@pytest.mark.parametrize("flood", FLOODS)
def test_the_largest_body_that_is_taken_ends_soon(flood: str) -> None:
    parse, make = FLOODS[flood]
    data = make()
    began = time.process_time()

    read(parse, data)

    # A regular expression that tries all ways, or a list that is walked for each line, would take minutes.
    assert time.process_time() - began < 8
