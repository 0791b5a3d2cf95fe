# SPDX-License-Identifier: Apache-2.0
"""What does a node pay for its agent? Processor time, memory and bytes, of the real one on a machine of files.

    python -m tests.bench.agent_cost [--seconds 60] [--period 0.5]

The machine shows 8 GPUs and 32 EFAs. Rounds follow one another faster than in use; what one costs is told for the 120
rounds of an hour at most. What its tools cost is told apart: here they are a shell that prints a file.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from registry.agent.loop import PERIOD_SECONDS
from tests.agent.machine import FakeMachine
from tests.collectors.adapters import Efa, write_sysfs
from tests.collectors.machines import h100_gpus

GPUS, EFAS = 8, 32
CPU_AIM, MEMORY_AIM = 0.01, 80.0
"""Share of a core, and MB."""

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Taken:
    """What reached the server: the size of each body."""

    sizes: list[int] = field(default_factory=list)


def make_server(taken: Taken) -> http.server.ThreadingHTTPServer:
    """A server that says yes to everything and reads nothing, so that it costs nothing."""
    decision = {"node": "node-a", "admitted": True, "disposition": "admit", "reasons": []}
    answer = json.dumps({"admission": decision}).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            taken.sizes.append(len(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)


def cpu_of(pid: int) -> tuple[float, float]:
    """Seconds of processor time that a process has used, and those of the tools that it has run (man 5 proc)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    own, tools = (sum(map(int, fields[at : at + 2])) / _TICKS for at in (11, 13))
    return own, tools


def memory_of(pid: int) -> float:
    """The most memory that a process had resident, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) * 1024 / 1e6


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--period", type=float, default=0.5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        machine = FakeMachine(Path(name), h100_gpus(GPUS))
        shutil.rmtree(machine.root / "sys")
        write_sysfs(machine.root, *(Efa(number) for number in range(EFAS)))
        taken = Taken()
        server = make_server(taken)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        given = {"PRATIQUE_URL": url, "PRATIQUE_TOKEN": "prq_node_bench", "PRATIQUE_AGENT_PROFILE": "p5.48xlarge"}
        command = machine.command("node-a", "--period", str(asked.period))
        with subprocess.Popen(command, env=machine.environment(**given), stderr=subprocess.DEVNULL) as agent:
            measure(agent.pid, taken, asked.seconds)
            agent.terminate()
        server.shutdown()
        server.server_close()


def measure(pid: int, taken: Taken, seconds: float) -> None:
    """Let it warm up, then measure for so long."""
    while len(taken.sizes) < 3:
        time.sleep(0.05)
    first, (own, tools) = len(taken.sizes), cpu_of(pid)
    time.sleep(seconds)
    sizes, (own_now, tools_now), memory = taken.sizes[first:], cpu_of(pid), memory_of(pid)
    rounds = 3600 / PERIOD_SECONDS
    each, each_tool = (own_now - own) / len(sizes), (tools_now - tools) / len(sizes)
    share = each / PERIOD_SECONDS
    print(f"the agent, {GPUS} GPUs and {EFAS} EFAs, {len(sizes)} rounds")
    print(
        f"  processor   {each * 1000:8.1f} ms a round    {each * rounds:8.2f} s an hour, {share:.2%} of a core", end=""
    )
    print(f"    aim under {CPU_AIM:.0%}")
    print(f"  its tools   {each_tool * 1000:8.1f} ms a round    {each_tool * rounds:8.2f} s an hour")
    print(f"  memory      {memory:8.1f} MB at most                                 aim under {MEMORY_AIM:.0f} MB")
    size = sum(sizes) / len(sizes)
    print(f"  bytes       {size:8.0f} a report   {size * rounds / 1e6:9.2f} MB an hour")


if __name__ == "__main__":
    main()
