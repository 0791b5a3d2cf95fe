# SPDX-License-Identifier: Apache-2.0
"""How far is long work? Shown to a person on a terminal; in a log a bar is noise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(doing: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Give a function that is told how much is done in all. A bar appears on standard error if that is a terminal."""
    if not is_terminal():
        yield lambda _done: None
        return
    # Only now: loading it takes longer than most commands run.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True, force_terminal=True)
    # Rich would take what is printed meanwhile for the terminal, and so away from the file it is meant for.
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda done: bar.update(task, completed=done)


def is_terminal() -> bool:
    """Tell whether somebody may be looking at standard error."""
    return sys.stderr.isatty()
