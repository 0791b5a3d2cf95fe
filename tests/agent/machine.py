# SPDX-License-Identifier: Apache-2.0
"""On which machine does the agent of these tests run? Files for /sys, /proc and /dev, and tools of our own."""

from __future__ import annotations

import itertools
import os
import sys
import time
import uuid
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from tests.collectors.documents import STAMP, xml_document
from tests.collectors.machines import Gpu, h100_gpus

PROFILE = "g5.12xlarge"
GPU_COUNT = 4
UPTIME_SECONDS = 100
"""How long it was up when a test begins."""

# While there is a file beside it called …hang it never ends, and neither does what it has started.
NVIDIA_SMI = """#!/bin/sh
if [ -e "$0.hang" ]; then
    sleep 600 &
    echo $! >> "$0.children"
    wait
fi
if [ -e "$0.fail" ]; then cat "$0.fail"; exit 9; fi
sed "s/%STAMP%/$(date '+%a %b %e %H:%M:%S.%N %Y')/" "$0.xml"
"""

# 1,000 more than any other test of the run.
_numbers = itertools.count(1000 + os.getpid() % 1000 * 50)


class FakeMachine:
    """A machine with four GPUs that nobody else has, its kernel log, and `nvidia-smi`."""

    def __init__(self, folder: Path, gpus: Sequence[Gpu] = ()) -> None:
        self.number = next(_numbers)
        self.root = folder / "root"
        self.tools = folder / "tools"
        self.state = folder / "state"
        self.decision = folder / "decision.json"
        self.module = "registry.main"
        self.provider_id = f"i-{self.number:017x}"
        self.gpus = list(gpus) or h100_gpus(GPU_COUNT, node=self.number)
        for place in ("proc/sys/kernel/random", "dev", "sys/bus/pci/devices", "sys/class/infiniband"):
            (self.root / place).mkdir(parents=True)
        self.tools.mkdir()
        self.write_tool("nvidia-smi", NVIDIA_SMI)
        # The GPUs that the machine of the tests may have are none of ours.
        (self.tools / "pynvml.py").write_text("raise ImportError\n")
        self.show(self.gpus)
        self.boot()

    @property
    def nvidia_smi(self) -> Path:
        """The tool."""
        return self.tools / "nvidia-smi"

    def boot(self) -> None:
        """Begin a new boot, with an empty log."""
        self.boot_id = str(uuid.uuid4())
        (self.root / "proc/sys/kernel/random/boot_id").write_text(f"{self.boot_id}\n")
        self._booted_at = int(time.time()) - UPTIME_SECONDS
        (self.root / "proc/stat").write_text(f"cpu 1 2 3\nbtime {self._booted_at}\n")
        (self.root / "dev/kmsg").write_text("6,1,0,-;Linux version 6.8.0-1021-aws (buildd@host)\n")

    def set_clock(self, by: timedelta) -> None:
        """Let somebody set the clock: the kernel then says that the boot began at another time."""
        moved = self._booted_at + int(by.total_seconds())
        (self.root / "proc/stat").write_text(f"cpu 1 2 3\nbtime {moved}\n")

    def show(self, gpus: Sequence[Gpu]) -> None:
        """Let nvidia-smi print these from now on."""
        self.nvidia_smi.with_suffix(".xml").write_bytes(xml_document(gpus).replace(STAMP.encode(), b"%STAMP%"))

    def hang(self) -> None:
        """Let nvidia-smi hang from now on."""
        self.nvidia_smi.with_suffix(".hang").touch()

    def recover(self) -> None:
        """Let nvidia-smi answer again."""
        for suffix in (".hang", ".fail"):
            self.nvidia_smi.with_suffix(suffix).unlink(missing_ok=True)

    def children(self) -> list[int]:
        """The process ids of what hanging nvidia-smi have started."""
        file = self.nvidia_smi.with_suffix(".children")
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def slot(self, at: int) -> str:
        """The PCI address of a GPU as the kernel prints it."""
        return self.gpus[at].slot.lower()[4:]

    def log(self, message: str) -> None:
        """Let the kernel say something."""
        micros = int((time.time() - self._booted_at) * 1_000_000)
        with (self.root / "dev/kmsg").open("a") as log:
            log.write(f"4,900,{micros},-;{message}\n")

    def log_xid(self, at: int, number: int, text: str = "GPU has fallen off the bus.") -> None:
        """Let the driver report an Xid of a GPU."""
        place = self.slot(at).rpartition(".")[0]
        self.log(f"NVRM: Xid (PCI:{place}): {number}, pid='<unknown>', name=<unknown>, {text}")

    def environment(self, **settings: str) -> dict[str, str]:
        """What the agent finds around it."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PRATIQUE_")}
        own = {
            "PATH": f"{self.tools}:{os.environ['PATH']}",
            "PYTHONPATH": f"{self.tools}:{os.environ.get('PYTHONPATH', '')}",
            "PRATIQUE_AGENT_ROOT": str(self.root),
            "PRATIQUE_AGENT_STATE_DIR": str(self.state),
            "PRATIQUE_AGENT_STATE_FILE": str(self.decision),
            "PRATIQUE_AGENT_PROVIDER_ID": self.provider_id,
            "PRATIQUE_AGENT_PROFILE": PROFILE,
        }
        return {**inherited, **own, **settings}

    def command(self, node: str, *more: str) -> list[str]:
        """The agent's command line."""
        return [sys.executable, "-m", self.module, "agent", node, *more]

    def write_tool(self, name: str, text: str) -> None:
        """Put a tool where the agent finds it."""
        (self.tools / name).write_text(text)
        (self.tools / name).chmod(0o755)
