# SPDX-License-Identifier: Apache-2.0
"""Which heads of the history were seen outside the database? The end of the file that checkpoints are written to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from registry.domain.safe_mode import Head
from registry.store.migrations import NotReady

TAIL_BYTES = 64 * 1024
"""How much of the file's end is read: some 150 checkpoints, enough to tell where two histories part."""

_HASH = re.compile(r"[0-9a-f]{64}")
_SEQUENCE_MAX = 2**63 - 1


def newest_outside_checkpoint(file: Path | None) -> Head | None:
    """Return what the last line of the file names; None when there is no file, or nothing in it yet.

    Raises NotReady when there is something and it cannot be read.
    """
    return next(iter(outside_checkpoints(file)), None)


def outside_checkpoints(file: Path | None) -> tuple[Head, ...]:
    """Return the newest checkpoints of the file, the newest first, and none when there is no file.

    Their signatures are not looked at: a forged line stops admissions and lets nobody in. Raises NotReady when the file
    cannot be read or has no checkpoint in it: what was seen outside is then unknown.
    """
    text = _read_tail(file) if file is not None else ""
    found = tuple(_heads(text))
    if text.strip() and not found:
        raise NotReady([f"The checkpoints in {file} cannot be read: restore the file, or move it away to go without."])
    return found


def _read_tail(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            size = opened.seek(0, 2)
            opened.seek(max(0, size - TAIL_BYTES))
            return opened.read(TAIL_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise NotReady([f"The checkpoints in {file} cannot be read: {error.strerror}."]) from error


def _heads(text: str) -> Iterator[Head]:
    """Yield what each line names, the last first. A line that was cut off, at either end, names nothing."""
    for line in reversed(text.splitlines()):
        try:
            sequence, hash_ = (json.loads(line)[name] for name in ("sequence", "hash"))
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if type(sequence) is int and 0 < sequence <= _SEQUENCE_MAX and _HASH.fullmatch(str(hash_)):
            yield Head(sequence, hash_)
