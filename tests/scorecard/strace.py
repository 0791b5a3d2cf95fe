# SPDX-License-Identifier: Apache-2.0
"""What did a process write, when did it wait for the disk, and when did it promise something? Its system calls tell."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.project import ROOT
from tests.scorecard.measured import NotRun

CALLS = "write,pwrite64,fsync,fdatasync,ftruncate"
LONGEST = 1 << 20
"""Bytes of one write that are kept; SQLite writes pages."""

# PID, then a whole call, or its beginning, or its end (man 1 strace, FILTERING and OUTPUT FORMAT).
_WHOLE = re.compile(r"(?P<pid>\d+) +(?P<call>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+)")
_BEGUN = re.compile(r"(?P<pid>\d+) +(?P<call>\w+)\((?P<arguments>.*) <unfinished \.\.\.>")
_ENDED = re.compile(r"(?P<pid>\d+) +<\.\.\. (?P<call>\w+) resumed>.*\) += (?P<result>-?\d+)")
_ARGUMENTS = re.compile(r'\d+<(?P<path>[^>]*)>(?:, "(?P<data>[^"]*)", \d+)?(?:, (?P<number>\d+))?')


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that was done to a file: `write`, `truncate`, `sync begun` and `sync`, in the order of the trace."""

    what: str
    file: str
    data: bytes = b""
    number: int = 0
    """Where it was written, to what length it was cut, or which sync it is."""


def record(command: Sequence[str], files: Sequence[Path], log: Path) -> list[Act]:
    """Run a program of ours and return what it did to these files. Raises NotRun where there is no strace."""
    tool = shutil.which("strace")
    if tool is None:
        raise NotRun("there is no strace")
    watched = [word for path in files for word in ("-P", str(path))]
    options = ["-f", "-qq", "-xx", "-y", "-s", str(LONGEST), "-e", f"trace={CALLS}", "-e", "signal=none"]
    traced = [tool, *options, *watched, "-o", str(log), sys.executable, *command]
    done = subprocess.run(traced, cwd=ROOT, capture_output=True, text=True, check=False)
    if "ptrace" in done.stderr and "not permitted" in done.stderr:
        raise NotRun("strace may not trace here")
    assert done.returncode == 0, done.stderr
    return list(_acts(log))


def _acts(log: Path) -> Iterator[Act]:
    begun: dict[str, tuple[str, int]] = {}
    with log.open(encoding="ascii") as lines:
        for number, line in enumerate(lines):
            if whole := _WHOLE.match(line):
                yield from _done(whole["call"], whole["arguments"], int(whole["result"]), number, is_whole=True)
            elif start := _BEGUN.match(line):
                begun[start["pid"]] = start["arguments"], number
                if start["call"] in {"fsync", "fdatasync"}:
                    yield Act("sync begun", _file(start["arguments"]), number=number)
            elif (end := _ENDED.match(line)) and end["pid"] in begun:
                arguments, started = begun.pop(end["pid"])
                yield from _done(end["call"], arguments, int(end["result"]), started, is_whole=False)


def _done(call: str, arguments: str, result: int, number: int, *, is_whole: bool) -> Iterator[Act]:
    file = _file(arguments)
    found = _ARGUMENTS.match(arguments)
    if result < 0 or found is None:
        return
    if call in {"fsync", "fdatasync"}:
        if is_whole:
            yield Act("sync begun", file, number=number)
        yield Act("sync", file, number=number)
    elif call == "ftruncate":
        yield Act("truncate", file, number=int(found["number"] or 0))
    else:
        data = bytes.fromhex((found["data"] or "").replace("\\x", ""))[:result]
        yield Act("write", file, data, int(found["number"] or 0))


def _file(arguments: str) -> str:
    found = _ARGUMENTS.match(arguments)
    if found is None:
        return ""
    path = found["path"]
    if path.startswith("\\x"):
        path = bytes.fromhex(path.replace("\\x", "")).decode()
    return path.rpartition("/")[2]
