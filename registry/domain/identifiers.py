# SPDX-License-Identifier: Apache-2.0
"""Which printed words can point at a piece of hardware, and in what one form are they kept?

Tools print the same thing in several ways and fill gaps with words that look like values. Here each identifier gets
one form, or a reason why it identifies nothing. Who the device then is, `identity` decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address

from registry.domain.placeholders import (
    is_mig_name,
    is_placeholder,
    squeezed,
    why_no_value,
    why_nobody,
    why_not_a_serial,
    why_not_a_uuid,
)
from registry.domain.reports import DeviceEntry

__all__ = (
    "Identifier",
    "IdentifierType",
    "Scope",
    "SliceName",
    "identifiers_of",
    "is_mac",
    "is_mig_name",
    "is_placeholder",
    "mac_of_gid",
    "normalise_gid",
    "normalise_mac",
    "normalise_slot",
    "parse_slice",
    "usable_guid",
    "usable_module_id",
    "usable_serial",
    "usable_text",
    "usable_unique_id",
    "usable_uuid",
    "why_unusable",
)

_DOMAIN_LIMIT = 0xFFFFFFFF
"""The largest PCI domain that is printed: NVML gives it eight hexadecimal digits (`nvmlPciInfo_t.busId`)."""

_SLOT = re.compile(r"(?:([0-9a-f]{1,16})[:.])?([0-9a-f]{2})[:.]([01][0-9a-f])(?:[:.]([0-7]))?")
_UUID = re.compile(r"(?:gpu-)?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})")
_UNIQUE_ID = re.compile(r"0x([0-9a-f]{1,16})|([0-9a-f]{16})")
_MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}")


class Scope(StrEnum):
    """What an identifier stays with when things are moved about."""

    HARDWARE = "hardware"
    """It stays with the piece of hardware, wherever that is put."""
    INTERFACE = "interface"
    """It belongs to a network interface and goes where that goes; the card below may be another."""
    PLACE = "place"
    """It says where something is on one instance, and ends with the instance."""


class IdentifierType(StrEnum):
    """A kind of identifier."""

    SERIAL = "serial"
    """The number printed on the board; the GPUs of one board share it."""
    UUID = "uuid"
    """The identity that the maker gave one GPU; no label shows it."""
    UNIQUE_ID = "unique_id"
    """AMD's fused number of one GPU, which stands in for a UUID."""
    MODULE_ID = "module_id"
    """Which GPU of its board or tray this is. It stays with the hardware and names nothing by itself."""
    NODE_GUID = "node_guid"
    """An RDMA device's GUID: zeros on many EFA drivers, so never a key."""
    MAC = "mac"
    """The address of a network interface."""
    GID = "gid"
    """The RDMA address of a port, made from the network interface's own."""
    VPD_SERIAL = "vpd_serial"
    """The serial in a card's PCI vital product data."""
    UEID = "ueid"
    """The identity claim in NVIDIA attestation evidence."""
    SLICE = "slice"
    """The name of a MIG slice, which is a part of a GPU and no device."""

    @property
    def scope(self) -> Scope:
        """What an identifier of this type stays with."""
        return _SCOPES.get(self, Scope.HARDWARE)

    @property
    def names(self) -> str | None:
        """What one value belongs to: a `board`, a `unit`, or None where a value alone points at nothing."""
        return _NAMES.get(self)


_SCOPES = {
    IdentifierType.NODE_GUID: Scope.INTERFACE,
    IdentifierType.MAC: Scope.INTERFACE,
    IdentifierType.GID: Scope.INTERFACE,
    IdentifierType.SLICE: Scope.PLACE,
}

_NAMES = {
    IdentifierType.SERIAL: "board",
    IdentifierType.VPD_SERIAL: "board",
    IdentifierType.UUID: "unit",
    IdentifierType.UNIQUE_ID: "unit",
    IdentifierType.UEID: "unit",
}


@dataclass(frozen=True, slots=True)
class Identifier:
    """One typed string that an entry carried. `value` is in its one form when usable, else the text as seen."""

    kind: str
    vendor: str
    type: IdentifierType
    value: str
    scope: Scope
    is_usable: bool


@dataclass(frozen=True, slots=True)
class SliceName:
    """A MIG slice. `parent_uuid` is the GPU's UUID where the name contains it (drivers before 470), else None."""

    parent_uuid: str | None
    slice: str


def normalise_slot(text: str | None) -> str | None:
    """Return a PCI address as `dddd:bb:dd.f`, lower case, or None when the text is none.

    A left-out domain is 0000 and a left-out function 0. NVML's eight domain digits lose leading zeros down to four,
    and a domain that needs more keeps them: on Azure and GB300 the domain alone tells GPUs apart.
    """
    found = _SLOT.fullmatch((text or "").strip().lower())
    if found is None:
        return None
    domain, bus, device, function = found.groups()
    number = int(domain or "0", 16)
    if number > _DOMAIN_LIMIT:
        return None
    return f"{number:04x}:{bus}:{device}.{function or '0'}"


def usable_text(text: str | None) -> str | None:
    """Return the text without blanks around it, or None when it is a placeholder, all zeros or masked."""
    return None if why_nobody(text) else (text or "").strip()


def usable_serial(text: str | None) -> str | None:
    """Return a printed serial, kept to the character (leading zeros and case too), or None when it names no board."""
    return None if why_not_a_serial(text) else (text or "").strip()


def usable_uuid(text: str | None) -> str | None:
    """Return a UUID as `GPU-` and lower-case hexadecimal digits, or None when it names no unit.

    The bare form of Redfish, capitals and blanks are the same UUID. What is not UUID-shaped is another vendor's way
    of writing one and is kept as it stands. A MIG name is a slice, not a unit.
    """
    if why_not_a_uuid(text):
        return None
    plain = (text or "").strip()
    found = _UUID.fullmatch(squeezed(plain))
    return f"GPU-{'-'.join(found.groups())}" if found else plain


def usable_unique_id(text: str | None) -> str | None:
    """Return AMD's unique id as `0x` and lower-case digits, however sysfs and rocm-smi pad it, or None."""
    if why_nobody(text):
        return None
    plain = (text or "").strip()
    found = _UNIQUE_ID.fullmatch(plain.lower())
    return f"0x{int(found[1] or found[2], 16):x}" if found else plain


def usable_module_id(text: str | None) -> str | None:
    """Return a module id without blanks around it, or None for a placeholder. `0` is the first module."""
    return None if is_placeholder(text) else (text or "").strip()


def normalise_mac(text: str | None) -> str | None:
    """Return a MAC as six lower-case pairs with colons, or None when it is not one, all zeros or the broadcast."""
    digits = re.sub(r"[:.\-\s]", "", (text or "").lower())
    if not re.fullmatch(r"[0-9a-f]{12}", digits) or digits in {"0" * 12, "f" * 12}:
        return None
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))


def normalise_gid(text: str | None) -> str | None:
    """Return a GID in the short form of RFC 5952, or None when it is not one or its interface half is zero."""
    try:
        address = IPv6Address((text or "").strip())
    except AddressValueError:
        return None
    return str(address) if int(address) & 0xFFFFFFFFFFFFFFFF else None


def usable_guid(text: str | None) -> str | None:
    """Return a GUID as four lower-case groups with colons, or None when it is not one or all zeros."""
    digits = re.sub(r"[:.\-\s]", "", (text or "").lower().removeprefix("0x"))
    if not re.fullmatch(r"[0-9a-f]{16}", digits) or not digits.strip("0"):
        return None
    return ":".join(digits[at : at + 4] for at in range(0, 16, 4))


def is_mac(text: str) -> bool:
    """Return True when the text is a MAC in its one form; a GID never is."""
    return _MAC.fullmatch(text) is not None


def mac_of_gid(gid: str) -> str | None:
    """Return the MAC inside a GID that was made from one (modified EUI-64, RFC 4291 appendix A), else None."""
    low = (int(IPv6Address(gid)) & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big")
    if low[3:5] != b"\xff\xfe":
        return None
    return ":".join(f"{byte:02x}" for byte in (low[0] ^ 0x02, low[1], low[2], *low[5:]))


def parse_slice(text: str | None) -> SliceName | None:
    """Return what a MIG name says, or None when the text is none.

    Before driver 470 a slice was `MIG-GPU-<uuid>/<gi>/<ci>`, since then it has a UUID of its own, `MIG-<uuid>`:
    https://docs.nvidia.com/datacenter/tesla/mig-user-guide/
    """
    if not is_mig_name(text):
        return None
    name = (text or "").strip()
    parent, _, _ = name[len("MIG-") :].partition("/")
    is_old_form = parent.lower().startswith("gpu-")
    return SliceName(parent_uuid=usable_uuid(parent) if is_old_form else None, slice=name)


def identifiers_of(entry: DeviceEntry) -> tuple[Identifier, ...]:
    """Return everything the entry printed that looks like an identifier, what is not usable included."""
    printed: tuple[tuple[IdentifierType, str | None], ...] = (
        (IdentifierType.SERIAL, entry.serial),
        (IdentifierType.UUID, entry.uuid),
        (IdentifierType.UNIQUE_ID, entry.unique_id),
        (IdentifierType.MODULE_ID, entry.module_id),
        (IdentifierType.NODE_GUID, entry.node_guid),
        (IdentifierType.MAC, entry.mac),
        (IdentifierType.GID, entry.gid),
        *((IdentifierType.SLICE, name) for name in entry.slices),
    )
    return _identifiers(entry.kind, entry.vendor, printed)


def why_unusable(type_: IdentifierType | str, text: str | None) -> str | None:
    """Return why a text of this type points at nothing, as words that follow "because it ", or None when it does."""
    known = IdentifierType(type_)
    reason = _WHY_NOT.get(known, why_nobody)(text)
    if reason is not None or _NORMALISE.get(known, usable_text)(text) is not None:
        return reason
    return f"is not readable as a {known}"


@lru_cache(maxsize=1024)  # one list is asked for its entries' identifiers several times
def _identifiers(
    kind: str, vendor: str, printed: tuple[tuple[IdentifierType, str | None], ...]
) -> tuple[Identifier, ...]:
    found = []
    for type_, text in printed:
        if text is None:
            continue
        value = _NORMALISE.get(type_, usable_text)(text)
        found.append(Identifier(kind, vendor, type_, text if value is None else value, type_.scope, value is not None))
    return tuple(found)


_WHY_NOT: dict[IdentifierType, Callable[[str | None], str | None]] = {
    IdentifierType.SERIAL: why_not_a_serial,
    IdentifierType.VPD_SERIAL: why_not_a_serial,
    IdentifierType.UUID: why_not_a_uuid,
    IdentifierType.MODULE_ID: why_no_value,
}

_NORMALISE: dict[IdentifierType, Callable[[str | None], str | None]] = {
    IdentifierType.SERIAL: usable_serial,
    IdentifierType.VPD_SERIAL: usable_serial,
    IdentifierType.UUID: usable_uuid,
    IdentifierType.UNIQUE_ID: usable_unique_id,
    IdentifierType.MODULE_ID: usable_module_id,
    IdentifierType.NODE_GUID: usable_guid,
    IdentifierType.MAC: normalise_mac,
    IdentifierType.GID: normalise_gid,
}
