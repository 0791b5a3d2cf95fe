# SPDX-License-Identifier: Apache-2.0
"""How are the commands of a page run as they stand there? In bash, with real tools, and what they print is compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from registry.admin.demo_hardware import make_machine, print_gpus
from tests.clock import NOON

NEEDED = ("bash", "curl", "jq")

FENCE = re.compile(r"<!-- run: (?P<where>[a-z]+) -->\n```console\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"<!-- file: (?P<name>[a-z.-]+) -->\n```[a-z]+\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"\$ ((?:.*\\\n)*.*)\n")

# Prints what nvidia-smi would, each time a second later than before: the same look twice is no second look.
NVIDIA_SMI = """#!/bin/sh
set -eu
count=$(cat "$0.count" 2>/dev/null || echo 0)
echo $((count + 1)) > "$0.count"
sed "s/12:00:00/12:00:$(printf %02d "$count")/" "$0.xml"
"""

ANYTHING = "…"
"""What stands in a page for what differs each time."""


def commands_of(page: str) -> list[str]:
    """The blocks of a page that are run."""
    return [found["text"] for found in FENCE.finditer(page)]


def write_files(page: str, folder: Path) -> None:
    """Write the files that a page shows."""
    for found in FILE.finditer(page):
        (folder / found["name"]).write_text(found["text"], encoding="utf-8")


def run_blocks(blocks: Iterable[str], folder: Path, environment: dict[str, str]) -> None:
    """Run blocks in one shell; each command must end well, and print the lines that the page shows, in their order."""
    texts = list(blocks)
    script = "set -euo pipefail\n" + "\n".join(
        line for number, text in enumerate(texts) for line in (f"echo '=== {number}'", *COMMAND.findall(text))
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=150, check=False
    )
    story = f"{script}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, story
    printed = re.split(r"^=== [0-9]+\n", done.stdout, flags=re.MULTILINE)[1:]
    for text, lines in zip(texts, printed, strict=True):
        rest = iter(lines.splitlines())
        for expected in COMMAND.sub("", text).splitlines():
            assert any(fits(expected, line) for line in rest), f"{expected!r} is missing\n{story}"


def fits(expected: str, line: str) -> bool:
    """Whether a line is the one that a page shows; blanks may be more, and `…` stands for anything."""
    words = [re.escape(word) for word in " ".join(expected.split()).split(ANYTHING)]
    return re.fullmatch(".*".join(words), " ".join(line.split())) is not None


def make_tools(folder: Path) -> Path:
    """Make `pratique`, as it is installed beside this Python, an `nvidia-smi` of our own, and a short `sleep`."""
    folder.mkdir()
    tools = {
        "pratique": f'#!/bin/sh\nexec {sys.executable} -m registry.main "$@"\n',
        "nvidia-smi": NVIDIA_SMI,
        # What the kernel of the machine that runs the tests has seen is nobody's business here.
        "journalctl": "#!/bin/sh\nexit 1\n",
        "dmesg": "#!/bin/sh\necho '[    0.000000] Linux version 6.8.0 (builder@example)'\n",
        "sleep": f'#!/bin/sh\nexec {sys.executable} -c "import time; time.sleep(0.1)"\n',
    }
    (folder / "nvidia-smi.xml").write_text(print_gpus(make_machine("node-a", 1), NOON))
    for name, text in tools.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def clean_environment(tools: Path) -> dict[str, str]:
    """The environment without our settings, and with these tools."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PRATIQUE_")}
    return {**inherited, "PATH": f"{tools}:{os.environ['PATH']}"}
