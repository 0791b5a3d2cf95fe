# SPDX-License-Identifier: Apache-2.0
"""How does a machine with EFAs look to its kernel and to the RDMA tools? Trees and documents of our own.

An adapter is an `Efa`; each function shows adapters the way one source does.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from pathlib import Path

ZERO_GUID = "0000:0000:0000:0000"


@dataclass(frozen=True)
class Efa:
    """One adapter, by default of a healthy p5: `number` gives bus and MAC. `interface` None is an EFA-only one."""

    number: int = 0
    name: str | None = None
    interface: str | None = "eth"
    operstate: str = "up"
    carrier: str = "1"
    port: str | None = "4: ACTIVE"
    guid: str = ZERO_GUID
    product: int = 0xEFA1
    firmware: str = "0.0.0.0"
    counters: dict[str, str] = field(default_factory=lambda: {"tx_bytes": "7", "rx_drops": "0"})

    @property
    def bus(self) -> int:
        return 0x10 + self.number

    @property
    def slot(self) -> str:
        return f"0000:{self.bus:02x}:1b.0"

    @property
    def rdma_name(self) -> str:
        return self.name or f"rdmap{self.bus}s27"

    @property
    def mac(self) -> str:
        return f"02:5a:00:00:00:{self.number + 1:02x}"

    @property
    def gid(self) -> str:
        return str(IPv6Address(f"fe80::5a:ff:fe00:{self.number + 1:x}"))


def write_sysfs(root: Path, *efas: Efa, others: bool = False, loaded: bool = True) -> Path:
    """Make the tree of a machine below `root`/sys, with the links that a kernel makes, and return `root`."""
    rdma, net = (root / "sys/class" / name for name in ("infiniband", "net"))
    for folder in (rdma, net, root / "sys/bus/pci/devices"):
        folder.mkdir(parents=True)
    _put(root / "sys/devices/virtual/net/lo", address="00:00:00:00:00:00", operstate="unknown", carrier="1")
    (net / "lo").symlink_to("../../devices/virtual/net/lo")
    for efa in efas:
        card = root / f"sys/devices/pci0000:{efa.bus:02x}" / efa.slot
        _put_card(root, card, vendor="0x1d0f", device=f"0x{efa.product:04x}", driver="efa" if loaded else None)
        if loaded:
            _put_rdma(rdma, card, efa)
        if efa.interface:
            ena = root / f"sys/devices/pci0000:{efa.bus:02x}" / efa.slot.replace(":1b.", ":1a.")
            name = f"{efa.interface}{efa.number}"
            _put_card(root, ena, vendor="0x1d0f", device="0xec20", driver="ena")
            _put(ena / "net" / name, address=efa.mac, operstate=efa.operstate, carrier=efa.carrier)
            (ena / "net" / name / "device").symlink_to("../..")
            (net / name).symlink_to(f"../../{(ena / 'net' / name).relative_to(root / 'sys')}")
    if others:
        _put_others(root, rdma)
    return root


def _put(folder: Path, **texts: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n")


def _put_card(root: Path, card: Path, *, vendor: str, device: str, driver: str | None) -> None:
    ids = f"{vendor[2:].upper()}:{device[2:].upper()}"
    bound = f"DRIVER={driver}\n" if driver else ""
    _put(card, vendor=vendor, device=device, uevent=f"{bound}PCI_CLASS=20000\nPCI_ID={ids}\nPCI_SLOT_NAME={card.name}")
    (root / "sys/bus/pci/devices" / card.name).symlink_to(f"../../../{card.relative_to(root / 'sys')}")
    if driver:
        (root / "sys/bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)
        (card / "driver").symlink_to(root.resolve() / "sys/bus/pci/drivers" / driver)


def _put_rdma(rdma: Path, card: Path, efa: Efa) -> None:
    device = card / "infiniband" / efa.rdma_name
    _put(device, node_guid=efa.guid, fw_ver=efa.firmware, node_type="7: <unknown>")
    _put(device / "hw_counters", lifespan="12")
    (device / "ports").mkdir()
    if efa.port is not None:
        _put(device / "ports/1", state=efa.port, phys_state="5: LinkUp", link_layer="Unspecified")
        _put(device / "ports/1/gids", **{"0": IPv6Address(efa.gid).exploded})
        _put(device / "ports/1/hw_counters", **efa.counters)
    (device / "device").symlink_to("../..")
    (rdma / efa.rdma_name).symlink_to(f"../../{device.relative_to(rdma.parents[1])}")


def _put_others(root: Path, rdma: Path) -> None:
    """A ConnectX under a name that looks like an EFA's, an unbound one, and a software device."""
    for name, slot in (("efa_7", "0000:c0:00.0"), ("ibp193s0", "0000:c1:00.0")):
        card = root / "sys/devices/pci0000:c0" / slot
        _put_card(root, card, vendor="0x15b3", device="0x1021", driver="mlx5_core")
        _put(card / "infiniband" / name, node_guid="a088:c203:00ad:eab8", fw_ver="28.39.1002", hca_type="MT4129")
        _put(card / "infiniband" / name / "ports/1", state="1: DOWN", phys_state="3: Disabled")
        (card / "infiniband" / name / "device").symlink_to("../..")
        (rdma / name).symlink_to(f"../../devices/pci0000:c0/{slot}/infiniband/{name}")
    _put(root / "sys/devices/virtual/infiniband/rxe0", node_guid="a088:c2ff:fead:eab9")
    (rdma / "rxe0").symlink_to("../../devices/virtual/infiniband/rxe0")


PACKED = (
    *("class/infiniband/*/fw_ver", "class/infiniband/*/node_guid", "class/infiniband/*/hw_counters/*"),
    *("class/infiniband/*/hca_type", "class/infiniband/*/ports/1/state", "class/infiniband/*/ports/1/gids/0"),
    *("class/infiniband/*/ports/1/hw_counters/*", "class/infiniband/*/device/vendor"),
    *("class/infiniband/*/device/device", "class/infiniband/*/device/uevent"),
)
PACKED_NET = ("class/net/*/address", "class/net/*/operstate", "class/net/*/carrier", "class/net/*/device/vendor")


def pack(root: Path, *patterns: str, zipped: bool = True, padded: bool = True) -> bytes:
    """Return a tar of these attributes, each filled with zeros to a page, as tar does it in sysfs."""
    base = root / "sys"
    files = {}
    for pattern in patterns or (*PACKED, *PACKED_NET):
        for path in sorted(base.glob(pattern)):
            content = path.read_bytes()
            files[str(path.relative_to(base))] = content.ljust(4096, b"\0") if padded else content
    return tar_of(files, folders=("class/infiniband",), zipped=zipped)


def tar_of(
    files: dict[str, bytes], *, links: dict[str, str] | None = None, folders: tuple[str, ...] = (), zipped: bool = False
) -> bytes:
    """Return a tar of these members."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in folders:
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE
            tar.addfile(member)
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(out.getvalue(), mtime=0) if zipped else out.getvalue()


def ibv_devinfo(*efas: Efa, vendor: str = "0x1d0f", blanks: bool = False) -> bytes:
    """Return `ibv_devinfo -v`, some of the many lines it prints left out."""
    text = "".join(_ibv_device(efa, vendor) for efa in efas)
    return (text.expandtabs(4) if blanks else text).encode()


def _ibv_device(efa: Efa, vendor: str) -> str:
    part = efa.product if vendor == "0x1d0f" else 4129
    head = (
        f"hca_id:\t{efa.rdma_name}\n\ttransport:\t\t\tunspecified (4)\n\tfw_ver:\t\t\t\t{efa.firmware}\n"
        f"\tnode_guid:\t\t\t{efa.guid}\n\tsys_image_guid:\t\t\t{efa.guid}\n\tvendor_id:\t\t\t{vendor}\n"
        f"\tvendor_part_id:\t\t\t{part}\n\thw_ver:\t\t\t\t0x{efa.product:X}\n\tphys_port_cnt:\t\t\t1\n"
        "\tdevice_cap_flags:\t\t0x00000000\n\t\t\t\t\tUnknown flags: 0x1000\n"
        "\tcompletion timestamp_mask not supported\n"
    )
    if efa.port is None:
        return f"{head}\n"
    state = efa.port.partition(": ")
    return (
        f"{head}\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_{state[2]} ({state[0]})\n\t\t\tmax_mtu:\t\t4096 (5)\n"
        f"\t\t\tphys_state:\t\tLINK_UP (5)\n\t\t\tGID[  0]:\t\t{IPv6Address(efa.gid).exploded}\n\n"
    )


def fi_info(*efas: Efa, suffixes: tuple[str, ...] = ("-rdm", "-dgrm"), fabric: str | None = None) -> bytes:
    """Return `fi_info -p efa`: one entry per adapter and suffix."""
    return "".join(
        f"provider: efa\n    fabric: {fabric or f'EFA-{efa.gid}'}\n    domain: {efa.rdma_name}{suffix}\n"
        f"    version: 204.0\n    type: {'FI_EP_DGRAM' if suffix == '-dgrm' else 'FI_EP_RDM'}\n"
        "    protocol: FI_PROTO_EFA\n"
        for efa in efas
        for suffix in suffixes
    ).encode()


def lspci(*efas: Efa, gpus: tuple[str, ...] = (), gone: tuple[str, ...] = ()) -> bytes:
    """Return `lspci -Dnnvvv` of a machine with these EFAs and GPUs in these slots; `gone` slots read only ones."""
    blocks = ["0000:00:00.0 Host bridge [0600]: Intel Corporation 440FX [Natoma] [8086:1237]\n\tControl: I/O-\n"]
    kinds = [
        (efa.slot, f"Ethernet controller [0200]: Amazon.com, Inc. Elastic Fabric Adapter (EFA) [1d0f:{efa.product:x}]")
        for efa in efas
    ]
    kinds += [(slot, "3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330]") for slot in gpus]
    for slot, heading in kinds:
        driver = "efa" if "[1d0f" in heading else "nvidia"
        if slot in gone:
            body = " (rev ff) (prog-if ff)\n\t!!! Unknown header type 7f\n"
        else:
            body = " (rev a1)\n\tCapabilities: [2f0 v1] Device Serial Number 11-22-33-44-55-66-77-88\n"
        blocks.append(f"{slot} {heading}{body}\tKernel driver in use: {driver}\n")
    return "\n".join(blocks).encode()
