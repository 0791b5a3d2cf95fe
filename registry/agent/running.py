# SPDX-License-Identifier: Apache-2.0
"""How is a tool run so that it cannot hold the agent up? Under a limit, in a process group of its own.

A tool that hangs is killed with all its children. One that not even `kill -9` ends, because a system call of its
driver never returns, is abandoned: its answer is unknown, and no second one is started beside it.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from registry.collectors.running import ToolFailed, ToolMissing

LIMIT_SECONDS = 20.0
"""How long a tool may take. `nvidia-smi -q -x` takes some seconds on eight GPUs when no process keeps the driver loaded
(https://docs.nvidia.com/deploy/driver-persistence/index.html), and one that hangs must leave room in a period of 30."""

LIMIT_LEAST = 2.0
LIMIT_SHARE = 2 / 3

OUTPUT_MAX = 8 * 1024 * 1024
"""Bytes that a tool may print: 40 times what `nvidia-smi -q -x` says about eight GPUs."""

REMARK_MAX = 4096
GRACE_SECONDS = 2.0
"""How long a killed process may take to be gone. One that is in no system call is gone at once."""

TICK_SECONDS = 0.2
"""How often it is looked whether the agent shall stop, while a tool is silent."""

SECRETS = "PRATIQUE_"


def limit_in(period: float) -> float:
    """Give the limit of a tool that is run once in so many seconds."""
    return max(LIMIT_LEAST, min(LIMIT_SECONDS, period * LIMIT_SHARE))


def clean_environment(environ: Mapping[str, str], **more: str) -> dict[str, str]:
    """Give a tool's environment: without our settings, one of which is the token, and with texts in plain English."""
    inherited = {name: value for name, value in environ.items() if not name.startswith(SECRETS)}
    return {**inherited, "LC_ALL": "C", **more}


class ToolRunner:
    """Runs command lines: the `Runner` of the collectors. May be shared by threads.

    Raises ToolMissing and ToolFailed as the protocol has it; ToolFailed also for a tool that an earlier call had to
    abandon and that is still there, for more than OUTPUT_MAX bytes, and when `is_stopping` becomes true meanwhile.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        limit: float = LIMIT_SECONDS,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.environ = dict(environ)
        self.limit = limit
        self._is_stopping = is_stopping
        self._abandoned: dict[str, subprocess.Popen[bytes]] = {}

    def __call__(self, command: Sequence[str]) -> bytes:
        """Run a command line and give its standard output, whatever its exit code."""
        output, remark, code = self.run(command)
        name = Path(command[0]).name
        if code < 0:
            raise ToolFailed(f"{name} was ended by signal {-code}")
        if code and not output.strip():
            raise ToolFailed(f"{name} ended with {code} and printed nothing{': ' if remark else ''}{remark}")
        return output

    def run(self, command: Sequence[str], given: bytes = b"", **more: str) -> tuple[bytes, str, int]:
        """Run a command line with `given` as its standard input and `more` in its environment.

        Gives its standard output, the last line of its standard error, and its exit code.
        """
        program = shutil.which(command[0], path=self.environ.get("PATH"))
        if program is None:
            raise ToolMissing(f"there is no {command[0]} here")
        name = Path(program).name
        self._refuse_second(name)
        with _readable(given) as stdin:
            process = self._start([program, *command[1:]], stdin, more)
        try:
            output, remark = self._read(process, name)
        finally:
            self._end(process, name)
        last = remark.decode(errors="replace").strip().rpartition("\n")[2]
        return output, last, process.returncode

    def _refuse_second(self, name: str) -> None:
        old = self._abandoned.get(name)
        if old is None:
            return
        if old.poll() is None:
            raise ToolFailed(f"{name} still hangs from an earlier look: process {old.pid} cannot be ended")
        del self._abandoned[name]

    def _start(self, command: Sequence[str], stdin: IO[bytes], more: Mapping[str, str]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(  # noqa: S603 - no shell; the names are the collectors', the hook is the operator's
                command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**self.environ, **more},
                start_new_session=True,
            )
        except OSError as error:
            raise ToolFailed(f"{command[0]} cannot be started: {error.strerror}") from error

    def _read(self, process: subprocess.Popen[bytes], name: str) -> tuple[bytes, bytes]:
        """Take what it prints until it has ended. Raises ToolFailed."""
        deadline = time.monotonic() + self.limit
        output, remark = bytearray(), bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(_there(process.stdout), selectors.EVENT_READ, output)
            selector.register(_there(process.stderr), selectors.EVENT_READ, remark)
            while selector.get_map() or not _has_ended(process):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise ToolFailed(f"{name} gave no whole answer within {self.limit:g} s and was killed")
                if self._is_stopping():
                    raise ToolFailed(f"{name} was not waited for: the agent is stopping")
                if not _take(selector, min(left, TICK_SECONDS)) and _has_ended(process):
                    break  # something that it started holds the pipe, and will be killed with the group
                if len(output) > OUTPUT_MAX:
                    raise ToolFailed(f"{name} printed more than {OUTPUT_MAX} bytes and was killed")
                del remark[:-REMARK_MAX]
        return bytes(output), bytes(remark)

    def _end(self, process: subprocess.Popen[bytes], name: str) -> None:
        """Kill what is left of its group. It is not reaped before, so that the group's number is still its own."""
        for pipe in (process.stdout, process.stderr):
            _there(pipe).close()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._abandoned[name] = process


def _readable(given: bytes) -> IO[bytes]:
    """Give a file to read it from: a pipe would have to be filled while the tool is listened to."""
    if not given:
        return Path(os.devnull).open("rb")
    file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - whoever asked for it closes it
    file.write(given)
    file.seek(0)
    return file


def _there(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101 - asked for in _start
    return pipe


def _take(selector: selectors.BaseSelector, seconds: float) -> bool:
    """Move what has come into the buffers; False when nothing came in time."""
    if not selector.get_map():
        time.sleep(min(seconds, 0.01))
        return False
    ready = selector.select(seconds)
    for key, _ in ready:
        chunk = os.read(key.fd, 65_536)
        if chunk:
            key.data.extend(chunk)
        else:
            selector.unregister(key.fileobj)
    return bool(ready)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Has it ended? Looks without reaping it."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
