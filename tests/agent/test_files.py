# SPDX-License-Identifier: Apache-2.0
"""Does a file of the kernel that gives no answer hold nobody up, and nothing else go missing?"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from registry.agent.files import FileReader
from registry.collectors.running import ToolFailed
from registry.domain.errors import PartUnreadable


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    """What a device waits for that does not answer."""
    event = threading.Event()
    yield event
    event.set()


def test_it_gives_what_was_read_and_raises_what_was_raised() -> None:
    def unreadable() -> str:
        raise PartUnreadable("no adapter")

    reader = FileReader()

    assert reader.read("EFA", lambda: "read") == "read"
    with pytest.raises(PartUnreadable, match="no adapter"):
        reader.read("EFA", unreadable)


def test_what_gives_no_answer_is_left_behind_and_not_begun_again_beside_it(stuck: threading.Event) -> None:
    reader = FileReader(limit=0.05)
    begun = []

    def read() -> str:
        begun.append(1)
        stuck.wait()
        return "at last"

    with pytest.raises(ToolFailed, match=r"the files of EFA gave no answer within 0\.05 s"):
        reader.read("EFA", read)
    with pytest.raises(ToolFailed, match="still give no answer"):
        reader.read("EFA", read)
    assert reader.read("DMI", lambda: "another") == "another"
    assert begun == [1]

    stuck.set()
    deadline = time.monotonic() + 5
    while reader._left_behind["EFA"].is_alive():
        assert time.monotonic() < deadline
    assert reader.read("EFA", read) == "at last"


def test_a_stop_ends_the_waiting_at_once(stuck: threading.Event) -> None:
    began = time.monotonic()

    with pytest.raises(ToolFailed):
        FileReader(limit=60, is_stopping=lambda: True).read("EFA", stuck.wait)

    assert time.monotonic() - began < 5
