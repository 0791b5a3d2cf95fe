# SPDX-License-Identifier: Apache-2.0
"""Which sources are there on this machine, and which checks hang on each?"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from registry.agent import asking_nvml
from registry.agent.files import FileReader
from registry.agent.kernel import KernelLog
from registry.agent.looking import Look, Source, look_at
from registry.agent.memory import Memory
from registry.agent.messages import Span
from registry.agent.running import GRACE_SECONDS
from registry.agent.times import Times
from registry.collectors import dcgm_diag, dcgm_health, dmi, efa_sysfs, nvidia_smi_xml
from registry.collectors.kernel_log import CHECK
from registry.collectors.nvidia_smi_checks import ALL_CHECKS
from registry.collectors.running import Runner, ToolFailed, ToolMissing
from registry.collectors.sysfs import DirectoryTree
from registry.domain.errors import PartUnreadable
from registry.domain.reports import CheckStatus, DeviceEntry, Findings, Inventory, Kind

Lists = Mapping[str, Sequence[DeviceEntry]]

NVIDIA = "0x10de"
DISPLAY = ("0x0300", "0x0302")
"""PCI class of display controllers, VGA and 3D (https://pci-ids.ucw.cz/read/PD/03); an NVSwitch has another."""

KERNEL_LOG = "kernel log"

COMPLAINT_MAX = 200
"""Most characters that are quoted of what a tool says in place of an answer."""

SAME_LOOK_SECONDS = 2.0
"""A document with the time of the one before is an old one when so much time has passed: its stamps count seconds."""

LEVEL_BESIDE_JOBS = 1
"""The highest level that only looks at the installation; all above load the GPUs and want them for themselves:
https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/dcgm-diagnostics.html."""

DIAG_RETRY_SECONDS = 600.0
"""How long a diagnostic that could not tell is left alone; at each try it takes the GPUs for itself."""


@dataclass(slots=True)
class Machine:
    """The machine below `root`, as its tools and files tell of it. `lists` are the agent's last lists.

    `hurry` gets faults of the kernel log that cannot wait for a tool that hangs.
    """

    root: Path
    run: Runner
    kernel: KernelLog
    times: Times
    lists: Callable[[], Lists]
    hurry: Callable[[Look], None] = lambda _: None
    files: FileReader = field(default_factory=FileReader)
    _host: Findings | None = None
    _stamp: str | None = None
    _stamped_at: float = 0.0

    def look(self) -> Look:
        """Look once at all there is."""
        root, run = self.root, self.run
        sources = [
            # First, because a tool that hangs must not delay what the log says about it: `look_at` hurries with it.
            Source(KERNEL_LOG, self.kernel.read, (CHECK,)),
            Source("GPUs", self._read_gpus, tuple(sorted(ALL_CHECKS))),
            Source("EFA", lambda: self.files.read("EFA", lambda: efa_sysfs.collect(root, run)), ("efa.link",)),
            Source("DCGM", lambda: dcgm_health.collect(root, run), ("dcgm.health",)),
            Source("DMI", self._read_host, ()),
        ]
        seen = look_at(sources, self.lists(), self.hurry)
        if seen.lists.get(Kind.GPU) or self.has_gpus():
            return seen
        # Where there is no GPU nobody needs to know whether one had an Xid.
        return replace(
            seen,
            checks=tuple(check for check in seen.checks if check.name != CHECK),
            troubles={name: trouble for name, trouble in seen.troubles.items() if name != KERNEL_LOG},
        )

    def has_gpus(self) -> bool:
        """Are there GPUs, by the last list or by the PCI bus?"""
        return bool(self.lists().get(Kind.GPU)) or has_nvidia(self.root)

    def _read_gpus(self) -> Inventory:
        found = asking_nvml.ask(self.run) if asking_nvml.is_here() else None
        return self._ask_nvidia_smi() if found is None else found

    def _ask_nvidia_smi(self) -> Inventory:
        try:
            printed = self.run(["nvidia-smi", "-q", "-x"])
        except ToolMissing:
            if self.has_gpus():
                raise ToolFailed("there are NVIDIA GPUs on the PCI bus, and no nvidia-smi to ask about them") from None
            raise
        found = _document_in(printed)
        now = self.times.monotonic()
        if found.stamp is not None and found.stamp == self._stamp:
            if now - self._stamped_at > SAME_LOOK_SECONDS:
                raise ToolFailed(f"nvidia-smi shows the same look again, of {found.stamp}")
        else:
            self._stamp, self._stamped_at = found.stamp, now
        return found

    def _read_host(self) -> Findings:
        if self._host is None:
            self._host = dmi.collect(self.root, self.run)
        return self._host


def _document_in(printed: bytes) -> Inventory:
    """Read what nvidia-smi printed. It complains where the document should be, and nobody says better what is wrong."""
    try:
        return nvidia_smi_xml.parse(printed)
    except PartUnreadable:
        complaint = printed.strip().partition(b"\n")[0].decode(errors="replace")
        if not complaint or complaint.startswith("<"):
            raise
        raise ToolFailed(f"nvidia-smi gave no document and said: {complaint[:COMPLAINT_MAX]}") from None


def has_nvidia(root: Path) -> bool:
    """Is there a display controller of NVIDIA on the PCI bus?"""
    tree = DirectoryTree(root)
    places = (f"bus/pci/devices/{name}" for name in tree.names("bus/pci/devices") or ())
    return any(
        tree.text(f"{place}/vendor") == NVIDIA and (tree.text(f"{place}/class") or "").startswith(DISPLAY)
        for place in places
    )


class Diagnosis:
    """`dcgmi diag`, once a boot and beside the loop. Level 0 means that nobody asked for it.

    With `is_anytime` it also begins on a node that may be at work.
    """

    def __init__(
        self,
        root: Path,
        run: Runner,
        *,
        level: int,
        memory: Memory,
        times: Times,
        lists: Callable[[], Lists],
        is_anytime: bool = False,
    ) -> None:
        self._source = Source("DCGM diagnostic", lambda: self._read(root, run, level), (dcgm_diag.DIAG,))
        self._level = level
        self._is_anytime = is_anytime or level <= LEVEL_BESIDE_JOBS
        self._memory = memory
        self._times = times
        self._lists = lists
        self._thread: threading.Thread | None = None
        self._found: tuple[str, Look, Span] | None = None
        self._not_before = float("-inf")

    def start(self, run_id: str, *, is_free: bool) -> None:
        """Begin it as part of a round, unless it told something in this boot or still runs.

        One that takes the GPUs from whoever uses them begins only while the node is free, or when that was asked for.
        """
        if not (is_free or self._is_anytime):
            return
        is_due = self._level > 0 and not self._memory.is_diagnosed and self._times.monotonic() >= self._not_before
        if not is_due or self._thread is not None:
            return
        self._thread = threading.Thread(target=self._work, args=(run_id, dict(self._lists())), daemon=True)
        self._thread.start()

    def take(self) -> tuple[str, Look, Span] | None:
        """Give the round that it is part of and what it found, once, when it has ended."""
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread, found, self._found = None, self._found, None
        if found is None:
            return None
        self._memory.is_diagnosed = all(check.status is not CheckStatus.UNKNOWN for check in found[1].checks)
        self._not_before = self._times.monotonic() + DIAG_RETRY_SECONDS
        return found

    def end(self) -> None:
        """Wait until its tool was killed, which happens at once when the agent stops."""
        if self._thread is not None:
            self._thread.join(2 * GRACE_SECONDS)

    def _work(self, run_id: str, lists: Lists) -> None:
        started = self._times.monotonic()
        look = look_at([self._source], lists)
        self._found = run_id, replace(look, lists={}), Span(started, self._times.monotonic())

    def _read(self, root: Path, run: Runner, level: int) -> Findings:
        try:
            return dcgm_diag.collect(root, run, level)
        except ToolMissing as error:
            raise ToolFailed(f"the diagnostic was asked for, and {error}") from error
