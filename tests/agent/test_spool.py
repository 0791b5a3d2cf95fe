# SPDX-License-Identifier: Apache-2.0
"""Does what waits survive, in order and within bounds, and does a spoilt file stop nothing?"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from registry.agent import spool as spools
from registry.agent.spool import Spool


def bodies(spool: Spool, most: int = 1000) -> list[bytes]:
    return [entry.body for entry in spool.waiting(most)]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def spool(tmp_path: Path, said: list[str]) -> Spool:
    return Spool(tmp_path / "spool", say=said.append)


def test_faults_come_first_and_each_sort_in_the_order_it_came(spool: Spool) -> None:
    for body, is_fault in ((b"1", False), (b"2", True), (b"3", False), (b"4", True)):
        spool.put(body, is_fault=is_fault)

    assert bodies(spool) == [b"2", b"4", b"1", b"3"]
    assert bodies(spool, 3) == [b"2", b"4", b"1"]
    assert len(spool) == 4


def test_what_was_put_is_there_after_a_restart_and_the_order_goes_on(spool: Spool, said: list[str]) -> None:
    spool.put(b'{"one": 1}', is_fault=False)

    again = Spool(spool.folder, say=said.append)
    again.put(b"two", is_fault=False)

    assert bodies(again) == [b'{"one": 1}', b"two"]
    assert said == []


def test_a_message_is_gone_when_it_was_sent(spool: Spool) -> None:
    spool.put(b"one", is_fault=True)
    spool.put(b"two", is_fault=False)

    spool.remove(spool.waiting(1)[0])

    assert bodies(spool) == [b"two"]
    assert [file.suffix for file in spool.folder.iterdir()] == [".calm"]


def test_the_oldest_without_news_go_first_and_faults_never(tmp_path: Path, said: list[str]) -> None:
    spool = Spool(tmp_path, say=said.append, limit=1000)
    spool.put(b"first fault".ljust(300), is_fault=True)
    for number in range(4):
        spool.put(b"%d" % number + b" " * 290, is_fault=False)
    for _ in range(4):
        spool.put(b"fault".ljust(300), is_fault=True)

    left = bodies(spool)

    assert [body.split()[0] for body in left] == [b"first", *[b"fault"] * 4]
    assert said[0] == "the spool is full: 1 of the oldest reports without news were given up"


def test_the_newest_without_news_are_those_that_stay(tmp_path: Path) -> None:
    spool = Spool(tmp_path, say=str, limit=1000)
    for number in range(10):
        spool.put(b"%d" % number + b" " * 290, is_fault=False)

    assert [body[:1] for body in bodies(spool)] == [b"7", b"8", b"9"]


@pytest.mark.parametrize("spoil", [lambda raw: raw[:-3], lambda raw: raw[:12] + b"X" + raw[13:], lambda _: b""])
def test_a_spoilt_file_is_set_aside_and_said_and_hinders_no_other(spool: Spool, said: list[str], spoil: object) -> None:
    assert callable(spoil)
    spool.put(b"spoilt message", is_fault=True)
    spool.put(b"whole", is_fault=True)
    first = min(spool.folder.iterdir())
    first.write_bytes(spoil(first.read_bytes()))

    assert bodies(spool) == [b"whole"]
    assert len(spool) == 1
    assert "is not as it was written" in said[0]
    assert [file.name for file in (spool.folder / "set-aside").iterdir()] == [first.name]


def test_what_an_interrupted_write_left_is_cleared_away(spool: Spool, said: list[str]) -> None:
    spool.put(b"one", is_fault=False)
    (spool.folder / "000000000002.begun").write_bytes(b"0000")

    again = Spool(spool.folder, say=said.append)

    assert bodies(again) == [b"one"]
    assert len(list(again.folder.iterdir())) == 1


@pytest.mark.slow
def test_kill_9_leaves_whole_messages_and_none_that_was_kept_is_missing(tmp_path: Path, said: list[str]) -> None:
    program = (
        "import sys; from pathlib import Path; from registry.agent.spool import Spool\n"
        "spool = Spool(Path(sys.argv[1]), say=print)\n"
        "for number in range(1, 1_000_000):\n"
        "    spool.put(b'%d ' % number + b'x' * 20_000, is_fault=bool(number % 2))\n"
        "    print(number, flush=True)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE)
    time.sleep(0.8)
    os.kill(writer.pid, signal.SIGKILL)
    kept = [int(line) for line in writer.communicate()[0].split(b"\n") if line.strip()]

    found = [int(body.split()[0]) for body in bodies(Spool(tmp_path, say=said.append), 10_000)]

    assert len(kept) > 10
    assert said == []
    assert set(kept) <= set(found) <= {*kept, kept[-1] + 1}


def test_a_disk_that_takes_nothing_loses_no_fault(
    spool: Spool, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(spools, "write_whole", refuse)
        spool.put(b"fault", is_fault=True)
        spool.put(b"calm", is_fault=False)
        assert bodies(spool) == [b"fault"]
        assert list(spool.folder.iterdir()) == []

    spool.put(b"later", is_fault=True)

    assert bodies(Spool(spool.folder, say=said.append)) == [b"fault", b"later"]
    assert [sentence.rpartition(": ")[2] for sentence in said] == [
        "this one is kept in memory",
        "what has no news is given up",
    ]


def test_one_that_only_memory_holds_is_forgotten_when_it_was_sent(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(spools, "write_whole", refuse)
    spool.put(b"fault", is_fault=True)

    spool.remove(spool.waiting(1)[0])

    assert len(spool) == 0


def full_after(monkeypatch: pytest.MonkeyPatch, spool: Spool, room: int) -> None:
    """Let the disk hold so many bytes of messages."""
    write = spools.write_whole

    def limited(path: Path, content: bytes, begun: Path, mode: int = 0o600) -> None:
        if sum(one.stat().st_size for one in spool.folder.iterdir() if one.is_file()) + len(content) > room:
            raise OSError(28, "No space left on device")
        write(path, content, begun, mode)

    monkeypatch.setattr(spools, "write_whole", limited)


def test_on_a_full_disk_calm_reports_are_given_up_for_a_fault(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    full_after(monkeypatch, spool, 120)
    for number in range(3):
        spool.put(b"%d" % number * 30, is_fault=False)

    spool.put(b"f" * 40, is_fault=True)

    assert bodies(Spool(spool.folder, say=said.append)) == [b"f" * 40, b"2" * 30]
    assert not spool.is_holding


def test_on_a_full_disk_the_newest_calm_reports_stay_and_it_is_said_once(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    full_after(monkeypatch, spool, 120)

    for number in range(6):
        spool.put(b"%d" % number * 30, is_fault=False)

    assert bodies(spool) == [b"3" * 30, b"4" * 30, b"5" * 30]
    assert len(said) == 1


def test_a_folder_that_was_cleared_away_is_made_again(spool: Spool) -> None:
    spool.put(b"before", is_fault=True)
    shutil.rmtree(spool.folder)
    assert (len(spool), spool.waiting(9)) == (0, [])

    spool.put(b"after", is_fault=True)

    assert bodies(spool) == [b"after"]


def test_a_message_that_the_disk_does_not_forget_is_sent_once_and_hinders_no_other(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    for body in (b"sent", b"spoilt", b"next"):
        spool.put(body, is_fault=True)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", refuse)
    monkeypatch.setattr(Path, "rename", refuse)
    sent, never, _ = spool.waiting(9)
    spool.remove(sent)
    spool.set_aside(never, "nobody will take it")

    assert bodies(spool) == [b"next"]
    assert len(spool) == 1
    assert all("Read-only file system" in sentence for sentence in said)


def test_a_fault_that_is_too_large_for_the_disk_is_kept_bare(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    full_after(monkeypatch, spool, 60)

    spool.put(b"f" * 100, is_fault=True, bare=b"bare")

    assert bodies(Spool(spool.folder, say=print)) == [b"bare"]
    assert not spool.is_holding


@pytest.mark.parametrize("name", ["12a.fault", "0001.calm.spoilt", "notes.txt", "\uff11.fault"])
def test_a_file_of_an_odd_name_is_set_aside_and_named(tmp_path: Path, name: str, said: list[str]) -> None:
    (tmp_path / name).write_bytes(b"x")
    (tmp_path / "000000000007.fault").mkdir()

    spool = Spool(tmp_path, say=said.append)
    spool.put(b"whole", is_fault=True)

    assert bodies(spool) == [b"whole"]
    assert sorted(one.name for one in (tmp_path / "set-aside").iterdir()) == sorted([name, "000000000007.fault"])
    assert sum(name in sentence for sentence in said) == 1


def test_what_is_set_aside_is_kept_and_bounded(spool: Spool, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spools, "ASIDE_MAX", 2)
    spool.put(b"waited", is_fault=True)

    spool.set_aside(spool.waiting(1)[0], "no")
    for body in (b"second", b"third"):
        spool.set_aside(body, "no")

    kept = sorted((spool.folder / "set-aside").iterdir())
    assert [one.read_bytes() for one in kept] == [b"second", b"third"]
    assert len(spool) == 0
    assert all(sentence.endswith(": no") for sentence in said)
