# SPDX-License-Identifier: Apache-2.0
r"""Which EFAs does the kernel know, and is the network behind each of them up?

The answer is read from sysfs, live (`collect`) or from a tar (`parse`). Its directories are full of links, which a
plain tar does not follow: `TAR_COMMAND` packs what they lead to.

The port of an EFA always reads ACTIVE (`efa_query_port` in the kernel), so `efa.link` looks at the network device
that shares the EFA's MAC. An EFA-only interface has none, and then there is no link that a guest could see:
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from registry.collectors.nvidia_smi_text import shown
from registry.collectors.rdma import (
    LINK_CHECK,
    check_entries,
    check_value,
    efa_entry,
    is_efa,
    other_cards,
    read_hex,
    read_number,
)
from registry.collectors.running import Runner
from registry.collectors.sysfs import DirectoryTree, TarTree, Tree
from registry.domain.errors import PartUnreadable
from registry.domain.identifiers import mac_of_gid, normalise_gid, normalise_mac
from registry.domain.identity import normalise_slot
from registry.domain.reports import CheckResult, CheckStatus, DeviceEntry, Inventory, Kind, Notice, Reading

TAR_COMMAND = (
    "tar -C /sys --no-recursion -czf efa.tar.gz $(cd /sys && ls -d class/infiniband "
    "class/infiniband/*/{fw_ver,node_guid,hca_type,hw_counters/*,device/{vendor,device,uevent}} "
    "class/infiniband/*/ports/1/{state,gids/0,hw_counters/*} "
    "class/net/*/{address,operstate,carrier,device/vendor} 2>/dev/null)"
)
"""What packs all that is read here, in bash, for its braces."""

_RDMA = "class/infiniband"
_PCI = "bus/pci/devices"
_NET = "class/net"
_SOURCE = "/sys/class/infiniband"
_LINKS_UNREAD = Notice(
    "links_unread",
    f"a tar without /sys/{_NET} does not show whether a link is up: the port of an EFA always reads ACTIVE. "
    f"In bash, this packs both: {TAR_COMMAND}",
)
_MAX_COUNTERS = 200
"""Of one adapter; the driver has some 40."""
_DOWN = frozenset({"DOWN", "LOWERLAYERDOWN", "NOTPRESENT"})
"""RFC 2863 states without a link, as `operstate` prints them in small letters: https://docs.kernel.org/networking/operstates.html"""


@dataclass(frozen=True, slots=True)
class _Card:
    """What an RDMA device says of the PCI function under it."""

    slot: str | None
    vendor: int | None
    product: int | None
    driver: str | None


@dataclass(frozen=True, slots=True)
class _Interface:
    """A network device."""

    name: str
    mac: str | None
    operstate: str | None
    carrier: str | None
    has_card: bool


def collect(root: Path, run: Runner) -> Inventory:  # noqa: ARG001 - all collectors are called alike
    """Read the tree below `root`/sys. Raises PartUnreadable when there is none."""
    return read_tree(DirectoryTree(root))


def parse(data: bytes) -> Inventory:
    """Read a tar of `/sys/class/infiniband`, plain or gzip, with or without the directories that its links lead to.

    Raises PartUnreadable, also where the tar does not say what a device in it is.
    """
    return read_tree(TarTree(data))


def read_tree(tree: Tree) -> Inventory:
    """List the EFAs of a sysfs tree and judge their links.

    An EFA of the PCI bus without an RDMA device is listed by its slot: its driver is not loaded, or it comes up late.
    """
    names = tree.names(_RDMA)
    on_bus = _efas_on_bus(tree)
    if names is None and on_bus is None:
        raise PartUnreadable(f"there is no {_SOURCE} in it; send a tar of that directory, with the devices it links to")
    cards = {name: _read_card(tree, name) for name in names or ()}
    efas = {name: card for name, card in cards.items() if _is_efa(tree, name, card)}
    interfaces = _read_interfaces(tree)
    read = [_read_efa(tree, name, card, interfaces) for name, card in efas.items()]
    slots = {entry.slot for entry, _ in read}
    read += [_without_driver(slot, product) for slot, product in (on_bus or {}).items() if slot not in slots]
    entries = tuple(entry for entry, _ in read)
    check_entries(entries, _SOURCE)
    nothing = CheckResult(LINK_CHECK, CheckStatus.NOT_APPLICABLE, message="there is no EFA to look at")
    others = other_cards(check_value("name", name, _SOURCE) for name in cards if name not in efas)
    return Inventory(
        kind=Kind.EFA,
        entries=entries,
        checks=tuple(check for _, check in read) or (nothing,),
        warnings=(*others, _LINKS_UNREAD) if efas and interfaces is None else others,
    )


def _efas_on_bus(tree: Tree) -> dict[str, int | None] | None:
    """Return slot and product of each EFA on the PCI bus, None where the bus cannot be read."""
    places = tree.names(_PCI)
    if places is None:
        return None
    found: dict[str, int | None] = {}
    for place in places:
        slot, vendor, product = (normalise_slot(place), *_ids(tree, f"{_PCI}/{place}"))
        if slot is not None and is_efa(vendor, product, None):
            found[slot] = product
    return found


def _ids(tree: Tree, folder: str) -> tuple[int | None, int | None]:
    return read_hex(tree.text(f"{folder}/vendor")), read_hex(tree.text(f"{folder}/device"))


def _read_card(tree: Tree, name: str) -> _Card:
    """Ask the PCI function: by its own attributes, by its uevent, by where the links of the device lead."""
    folder = f"{_RDMA}/{name}/device"
    said = dict(line.partition("=")[::2] for line in (tree.text(f"{folder}/uevent") or "").splitlines())
    vendor, product = _ids(tree, folder)
    pci_id = said.get("PCI_ID", "").partition(":")
    # bus/pci/drivers/efa
    *_, above, driver = ("", *(tree.real(f"{folder}/driver") or "").split("/"))
    # …/0000:10:1b.0/infiniband/rdmap16s27
    parents = (tree.real(f"{_RDMA}/{name}") or "").split("/")[-3:-2]
    places = (said.get("PCI_SLOT_NAME"), (tree.real(folder) or "").rpartition("/")[2], *parents)
    return _Card(
        slot=next((slot for slot in map(normalise_slot, places) if slot), None),
        vendor=vendor if vendor is not None else read_hex(pci_id[0]),
        product=product if product is not None else read_hex(pci_id[2]),
        driver=said.get("DRIVER") or (driver if above == "drivers" else None),
    )


def _is_efa(tree: Tree, name: str, card: _Card) -> bool:
    """Tell an EFA from other cards. Raises PartUnreadable where nothing says which it is.

    A software device has no PCI function. A `hca_type` is an attribute that other drivers have and EFA's has not.
    """
    if card.vendor is not None or card.driver:
        return is_efa(card.vendor, card.product, card.driver)
    is_virtual = (tree.real(f"{_RDMA}/{name}") or "").startswith("devices/virtual/")
    if is_virtual or tree.text(f"{_RDMA}/{name}/hca_type"):
        return False
    raise PartUnreadable(
        f"nothing says which card {shown(name)} is; add {_SOURCE}/*/device/uevent (a link alone holds no file)"
    )


def _read_efa(
    tree: Tree, name: str, card: _Card, interfaces: tuple[_Interface, ...] | None
) -> tuple[DeviceEntry, CheckResult]:
    folder = f"{_RDMA}/{check_value('name', name, _SOURCE)}"
    port = next(iter(tree.names(f"{folder}/ports") or ()), None)
    texts = {key: tree.text(f"{folder}/{key}") or None for key in ("node_guid", "fw_ver")}
    gid = (tree.text(f"{folder}/ports/{port}/gids/0") or None) if port else None
    for key, text in (*texts.items(), ("gid", gid)):
        check_value(key, text or "", _SOURCE)
    interface = _interface_of(gid, interfaces)
    entry = efa_entry(name, card.slot, card.product, gid=gid, node_guid=texts["node_guid"])
    readings: dict[str, Reading] = _counters(tree, (f"{folder}/hw_counters", f"{folder}/ports/{port}/hw_counters"))
    port_state = _word(tree.text(f"{folder}/ports/{port}/state")) if port else None
    readings |= {"port_state": port_state, "interface": interface.name if interface else None}
    readings["link_state"] = interface.operstate if interface else None
    entry = replace(
        entry,
        mac=interface.mac if interface else None,
        firmware={"efa": texts["fw_ver"]} if texts["fw_ver"] else {},
        readings=readings,
    )
    status, message = _judge(port_state, gid, interface, is_read=interfaces is not None)
    return entry, _link(entry, status, message)


def _counters(tree: Tree, folders: Iterable[str]) -> dict[str, Reading]:
    paths = ((folder, name) for folder in folders for name in tree.names(folder) or ())
    return {
        check_value("counter", name, _SOURCE): read_number(tree.text(f"{folder}/{name}"))
        for folder, name in islice(paths, _MAX_COUNTERS)
    }


def _judge(
    port_state: str | None, gid: str | None, interface: _Interface | None, *, is_read: bool
) -> tuple[CheckStatus, str]:
    """Say how the link is. The port's own word is believed only when it is a bad one."""
    if port_state is None:
        return CheckStatus.UNKNOWN, "it shows no port"
    if port_state != "ACTIVE":
        return CheckStatus.FAIL, f"its port is {port_state}"
    if interface is not None:
        return _judge_interface(interface)
    if not is_read:
        return CheckStatus.UNKNOWN, f"the network devices cannot be read; add /sys/{_NET} to the tar"
    if _mac(gid) is None:
        return CheckStatus.UNKNOWN, "its GID holds no MAC, so its network device cannot be told"
    return CheckStatus.NOT_APPLICABLE, "it is an EFA-only interface: no network device shares its MAC"


def _judge_interface(interface: _Interface) -> tuple[CheckStatus, str]:
    if interface.operstate in _DOWN or interface.carrier == "0":
        return CheckStatus.FAIL, f"its network device {interface.name} is down"
    if interface.operstate == "UP" or (interface.carrier == "1" and interface.operstate in {None, "UNKNOWN"}):
        return CheckStatus.PASS, f"its network device {interface.name} is up"
    return CheckStatus.UNKNOWN, f"the state of its network device {interface.name} cannot be read"


def _link(entry: DeviceEntry, status: CheckStatus, message: str) -> CheckResult:
    named = f"{entry.name or 'the EFA'}: {message}"
    code = "efa.link_down" if status is CheckStatus.FAIL else None
    return CheckResult(LINK_CHECK, status, device=entry.slot, code=code, message=named)


def _without_driver(slot: str, product: int | None) -> tuple[DeviceEntry, CheckResult]:
    entry = efa_entry(None, slot, product)
    return entry, _link(entry, CheckStatus.UNKNOWN, "no RDMA device: the driver is not loaded, or it comes up late")


def _read_interfaces(tree: Tree) -> tuple[_Interface, ...] | None:
    names = tree.names(_NET)
    if names is None:
        return None
    return tuple(
        _Interface(
            name=check_value("network device", name, _SOURCE),
            mac=normalise_mac(tree.text(f"{_NET}/{name}/address")),
            operstate=_word(tree.text(f"{_NET}/{name}/operstate")),
            carrier=tree.text(f"{_NET}/{name}/carrier"),
            has_card=tree.names(f"{_NET}/{name}/device") is not None,
        )
        for name in names
    )


def _interface_of(gid: str | None, interfaces: tuple[_Interface, ...] | None) -> _Interface | None:
    """Find the network device with the EFA's MAC; a VLAN or bridge on top has the same, but no card of its own."""
    mac = _mac(gid)
    same = [one for one in interfaces or () if mac is not None and one.mac == mac]
    return next((one for one in same if one.has_card), same[0] if same else None)


def _mac(gid: str | None) -> str | None:
    plain = normalise_gid(gid)
    return mac_of_gid(plain) if plain else None


def _word(text: str | None) -> str | None:
    """Return `4: ACTIVE` as `ACTIVE`, and `up` as `UP`."""
    return check_value("state", (text or "").rpartition(":")[2].strip().upper(), _SOURCE) or None
