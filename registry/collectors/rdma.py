# SPDX-License-Identifier: Apache-2.0
"""Which RDMA device is an EFA, where does it sit, and how are the words about it read?

What the readers of sysfs, ibv_devinfo, fi_info, lspci and ibstat have in common.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence

from registry.collectors.nvidia_smi_text import shown
from registry.domain.errors import PartUnreadable
from registry.domain.identity import normalise_slot
from registry.domain.reports import DeviceEntry, Kind, Notice, Reading

VENDOR = "amazon"
DRIVER = "efa"
LINK_CHECK = "efa.link"

MAX_DEVICES = 1024
"""More adapters than any machine has: an output that lists more is not what it says it is."""
MAX_TEXT = 256
"""Characters of one value: names, GIDs and versions are a tenth of it."""

MAX_LINES = 200_000
"""`lspci -vvv` of a machine with 500 functions has 15,000."""
MAX_LINE = 4096
"""Characters of one line: ten times the longest, a product name that the maker of the card filled up with blanks."""

_AMAZON = 0x1D0F
_EFA_PRODUCTS = range(0xEFA0, 0xEFB0)
"""Amazon numbers its EFAs 0xefa0, 0xefa1 and so on: `efa_pci_tbl`,
https://github.com/torvalds/linux/blob/master/drivers/infiniband/hw/efa/efa_main.c"""

_NAME_BY_PLACE = re.compile(r"rdma(?:P([0-9]{1,10}))?p([0-9]{1,3})s([0-9]{1,2})(?:f([0-7]))?")
_ENDPOINT = re.compile(r"-(?:rdm|dgrm)$")
_WHOLE = re.compile(r"-?[0-9]{1,20}")
_DECIMAL = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:e[+-]?[0-9]{1,2})?", re.IGNORECASE)


def is_efa(vendor: int | None, product: int | None, driver: str | None) -> bool:
    """Return True for an EFA, by PCI vendor and product or by its driver. What a device is called says nothing."""
    return driver == DRIVER or (vendor == _AMAZON and product in _EFA_PRODUCTS)


def model_of(product: int | None) -> str | None:
    """Return how an EFA's generation is written here, from its PCI product id; None without one."""
    return f"EFA 1d0f:{product:04x}" if product in _EFA_PRODUCTS else None


def device_name(text: str) -> str:
    """Return an RDMA device's name without the endpoint type that libfabric adds to it for each of its entries."""
    return _ENDPOINT.sub("", text.strip())


def slot_of_name(name: str) -> str | None:
    """Return the slot that a name was made from, None for a name that was not.

    `rdmap16s27` is bus 16, slot 27, in decimal; `P` is a domain other than 0 and `f` a function:
    https://github.com/linux-rdma/rdma-core/blob/master/kernel-boot/rdma-persistent-naming.rules
    """
    found = _NAME_BY_PLACE.fullmatch(name)
    if found is None:
        return None
    domain, bus, device, function = (int(digits or 0) for digits in found.groups())
    return normalise_slot(f"{domain:04x}:{bus:02x}:{device:02x}.{function}")


def read_hex(text: str | None) -> int | None:
    """Return a PCI id such as `0x1d0f` or `1D0F` as a number, None when it is none."""
    plain = (text or "").strip().lower().removeprefix("0x")
    return int(plain, 16) if re.fullmatch(r"[0-9a-f]{1,8}", plain) else None


def read_number(text: str | None) -> Reading:
    """Return a counter: whole where it can be, also out of scientific notation; None for `N/A (no PMA)` and the like.

    No counter says that a device is good or bad: some stay 0 on good ones, all begin anew with each instance.
    """
    plain = (text or "").strip()
    if _WHOLE.fullmatch(plain):
        return int(plain)
    if not _DECIMAL.fullmatch(plain):
        return None
    number = float(plain)
    return int(number) if number.is_integer() else number


def read_text(data: bytes, tool: str) -> str:
    """Return the output of a tool as text. Raises PartUnreadable for an empty one and for bytes that are no text."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PartUnreadable(f"the output is not text ({error.reason}); send what {tool} printed") from error
    if not text.strip():
        raise PartUnreadable(f"the output is empty; check that {tool} ran, and send what it printed")
    if "\0" in text:
        raise PartUnreadable(f"the output holds zero bytes; send what {tool} printed, as text")
    return text


def lines(text: str, tool: str) -> Iterator[str]:
    """Return the lines that are not blank, indentation kept. Raises PartUnreadable for more, or longer, than can be."""
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        if number > MAX_LINES or len(line) > MAX_LINE:
            raise PartUnreadable(f"line {number} is too long, or one line too many; send what {tool} printed")
        if line.strip():
            yield line.rstrip()


def check_end(text: str, tool: str) -> None:
    """Raises PartUnreadable where the last line has no end: a tool was stopped, and what it left out is not gone."""
    if not text.endswith(("\n", "\r")):
        raise PartUnreadable(f"the last line has no end: the output is cut off; send all that {tool} printed")


def check_value(name: str, text: str, tool: str) -> str:
    """Return a value that may be kept. Raises PartUnreadable for one that is too long, or not of printable letters."""
    if len(text) > MAX_TEXT or not text.isprintable():
        raise PartUnreadable(f"{name} reads {shown(text)}, which is no such value; send what {tool} printed")
    return text


def check_entries(entries: Sequence[DeviceEntry], tool: str) -> None:
    """Raises PartUnreadable for more adapters than a machine has, and for one name or slot that stands there twice."""
    if len(entries) > MAX_DEVICES:
        raise PartUnreadable(f"the output lists {len(entries)} EFAs; no machine has more than {MAX_DEVICES}")
    for what, texts in (("name", [entry.name for entry in entries]), ("slot", [entry.slot for entry in entries])):
        printed = [text for text in texts if text]
        twice = next((text for text in printed if printed.count(text) > 1), None)
        if twice is not None:
            raise PartUnreadable(f"the {what} {twice!r} is listed twice; send the output of one run of {tool}")


def efa_entry(
    name: str | None,
    slot: str | None,
    product: int | None,
    *,
    gid: str | None = None,
    node_guid: str | None = None,
    serial: str | None = None,
) -> DeviceEntry:
    """Return an EFA's entry, in the slot that a tool printed or else in the one that its name was made from."""
    return DeviceEntry(
        kind=Kind.EFA,
        vendor=VENDOR,
        slot=slot or (slot_of_name(name) if name else None),
        name=name,
        model=model_of(product),
        gid=gid,
        node_guid=node_guid,
        serial=serial,
    )


def other_cards(names: Iterable[str]) -> tuple[Notice, ...]:
    """Return the remark that these RDMA devices are no EFAs and so are not listed; nothing where there are none."""
    listed = list(names)
    if not listed:
        return ()
    more = f" and {len(listed) - 16} more" if len(listed) > 16 else ""
    return (Notice("not_an_efa", f"Other RDMA devices, not listed: {', '.join(listed[:16])}{more}."),)
