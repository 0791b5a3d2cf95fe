# SPDX-License-Identifier: Apache-2.0
"""Which files make up the project? What git tracks or would track; what it ignores was made here by a program."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# A clone that belongs to another user is read all the same: nothing in it is executed by listing it.
LIST_FILES = ("git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard")


@cache
def project_files() -> tuple[Path, ...]:
    """Every file of the project, relative to its root, in order."""
    listed = subprocess.run(LIST_FILES, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return tuple(sorted(path for path in map(Path, listed.split("\0")) if path.name and (ROOT / path).is_file()))


def read(path: Path) -> str:
    """The text of a file of the project; bytes that are no UTF-8 are replaced."""
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")
