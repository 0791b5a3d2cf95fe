# SPDX-License-Identifier: Apache-2.0
"""How far is the work? Shown on a terminal only: in a log a bar is noise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


@contextmanager
def phases() -> Iterator[Callable[[str, int, int], None]]:
    """Give what to tell the progress to: what is being done, how much of it, of how much (0 when nobody knows)."""
    if not sys.stderr.isatty():
        yield lambda _what, _done, _total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total or None)
