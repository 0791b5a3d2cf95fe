# SPDX-License-Identifier: Apache-2.0
"""What do the signals of a job say, and its exit code? Launchers and schedulers give them names of their own.

A kind is read by the words in it, so that `nccl_timeout`, `nccl.watchdog-timeout` and `NCCLTimeout` are one. What a
kind leaves open is read from the detail, by the patterns of the log. An unknown kind is kept and says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from registry.domain.excerpts import Places, quote, read_line
from registry.domain.failures import Cause, look_up
from registry.domain.findings import ENDED_BY_HAND, TIMED_OUT, Finding, Origin, base_of
from registry.domain.job_failures import Grade, JobFailure, Retry, Signal

_P, _S, _W = Grade.PROOF, Grade.SYMPTOM, Grade.WITNESS
_HW, _DRV, _PLT, _USR = Cause.HARDWARE, Cause.DRIVER, Cause.PLATFORM, Cause.USER


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kind of signal says. `is_placed`: it speaks of the node it names. `is_open`: its detail may say more."""

    words: re.Pattern[str]
    cause: Cause | None
    weight: int
    grade: Grade
    what: str
    is_placed: bool = False
    is_open: bool = False


_ROWS: tuple[tuple[str, Cause | None, int, Grade, str, bool, bool], ...] = (
    # The schedulers' own words first: https://slurm.schedmd.com/job_state_codes.html
    (
        r"time_?limit|wall_?time|deadline_exceeded",
        _USR,
        90,
        _P,
        "the time that the job asked for was over",
        False,
        False,
    ),
    (r"preempt|requeue", _PLT, 93, _P, "the scheduler took the nodes for other work", False, False),
    (r"spot|reclaim|interruption_notice|scheduled_event", _PLT, 93, _P, "the cloud took a machine back", False, False),
    (r"evict", _PLT, 85, _P, "the job was evicted", False, True),
    (
        r"user.*(cancel|stop|abort|interrupt)|(cancel|stop|abort)\w*_by_(the_)?(user|owner)|keyboard_?interrupt",
        _USR,
        85,
        _P,
        ENDED_BY_HAND,
        False,
        False,
    ),
    # An operator, a script that tidies up and the owner all cancel by the same command.
    (r"cancel|stopped_by|abort_requested", _USR, 40, _S, "somebody ended the job", False, True),
    (r"shut_?down|host_maintenance", _PLT, 88, _P, "a node was shut down", True, False),
    (r"node.*(not_?ready|lost|down|fail|reboot)|machine_down", _PLT, 85, _P, "a node was lost", True, False),
    (r"heartbeat", _PLT, 35, _S, "a node or rank no longer gives signs of life", True, False),
    # Memory, data, storage.
    (
        r"cuda_?(oom|out_of_memory)|gpu_?(oom|out_of_memory)",
        _USR,
        93,
        _P,
        "the program asked for more GPU memory than there is",
        False,
        False,
    ),
    (r"(^|_)oom|out_of_memory", _USR, 80, _P, "the program was killed for want of memory", False, True),
    (
        r"data_?load|data_?stall|dataset|input_?(pipeline|stall)|tokeniz",
        _USR,
        75,
        _S,
        "the preparation of data held the job up",
        False,
        True,
    ),
    # Why it could not be written, or who filled the disk, is open.
    (r"check_?point|disk_?full", _PLT, 50, _S, "something could not be written", False, True),
    (
        r"storage|file_?system|mount|disk",
        _PLT,
        72,
        _S,
        "something could not be read or written",
        False,
        True,
    ),
    # The devices, as a program sees them.
    (r"driver.*mismatch|version_mismatch", _DRV, 90, _P, "driver and library are of two versions", True, False),
    (r"(^|_)gsp", _DRV, 85, _P, "the GPU's firmware does not answer", True, False),
    (r"(^|_)ecc", _HW, 88, _P, "a memory error of a GPU", True, False),
    (r"(gpu|device).*(lost|missing|gone|off_?bus|fell|unavailable)", _HW, 85, _P, "a GPU is lost", True, False),
    (r"(^|_)(\w*link|port|nic|efa|ib)_.*(down|flap|lost)", _HW, 70, _P, "a link went down", True, False),
    (r"(^|_)sdc|silent_data|corrupt", _HW, 70, _P, "wrong results are suspected", True, False),
    (r"slow|straggl", _HW, 35, _S, "a rank was slower than the others", True, False),
    (r"(^|_)nan(_|$)|loss_(inf|spike|diverg)", None, 30, _S, "the loss is no number, of whatever cause", False, False),
    (r"exception|error_raised|traceback", _USR, 45, _S, "the program raised an exception", False, True),
    # Whoever waits, or finds the other end gone, is a witness.
    (r"timeout|timed_out|watchdog", None, 0, _W, TIMED_OUT, False, False),
    (r"hang|stall|stuck|progress", None, 0, _W, "somebody waits", False, False),
    (
        r"nccl|collective|remote|peer|unreach|unresponsive|connection|gloo|rdzv|rendezvous",
        None,
        0,
        _W,
        "the other end is gone or late",
        False,
        False,
    ),
    (r"exit|died|killed|abort|process", None, 0, _W, "a process has ended", False, True),
)

KINDS: tuple[Kind, ...] = tuple(
    Kind(re.compile(words), cause, weight, grade, what, is_placed, is_open)
    for words, cause, weight, grade, what, is_placed, is_open in _ROWS
)
"""Every kind of signal, in the order in which they are tried."""

SIGNALLED = 128
"""What a shell adds to the number of the signal that ended a process."""
_SIGNALS = {6: "SIGABRT", 7: "SIGBUS", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
"""The signals that end jobs, by their numbers: https://man7.org/linux/man-pages/man7/signal.7.html"""

_NUMBER = re.compile(r"(?:^|xid\W{0,2}|xid_|: )([0-9]{1,3})\b")
_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")


def read_signals(job: JobFailure, places: Places) -> Iterator[Finding]:
    """Give what each signal says; an unknown kind says nothing."""
    known: dict[str, Kind | None] = {}
    for one in job.signals:
        word = _BOUNDARY.sub("_", one.kind.strip()).lower()
        if word not in known:
            known[word] = next((kind for kind in KINDS if kind.words.search(word)), None)
        node = one.node or places.ranks.get(-1 if one.rank is None else one.rank) or places.only
        node = (places.meant_by(node) or node) if node else None
        signal = one if node == one.node else replace(one, node=node)
        found = _read(signal, word, known[word], job, places)
        if found is not None:
            yield found


def read_exit(job: JobFailure) -> Iterator[Finding]:
    """Give what the exit code says where it is told: much less than people think.

    https://tldp.org/LDP/abs/html/exitcodes.html: 128 and the number of the signal. A watchdog aborts (134), whoever
    stops a job sends SIGTERM (143) and then SIGKILL (137), as the kernel does when memory is short. Python says -9
    where a shell says 137: https://docs.python.org/3/library/subprocess.html#subprocess.Popen.returncode
    """
    code = job.exit_code or 0
    name = job.signal or _SIGNALS.get(-code if code < 0 else code - SIGNALLED)
    if name is None:
        return
    segfault = name == "SIGSEGV"
    cause, weight = (Cause.USER, 50) if segfault else (None, 10)
    what = f"the job ended by {name}" + (f", exit code {job.exit_code}" if job.exit_code is not None else "")
    yield Finding(Origin.EXIT, cause, weight, Grade.SYMPTOM, what, job.failed_at, kind=name)


def _read(signal: Signal, word: str, kind: Kind | None, job: JobFailure, places: Places) -> Finding | None:
    xid = _xid(word, signal.detail)
    if xid is not None:
        return _of_xid(xid, signal)
    detail = read_line(signal.detail, job, places) if signal.detail and (kind is None or kind.is_open) else None
    if detail is None:
        return _of_kind(signal, kind, places) if kind is not None else None
    is_witness = detail.grade is Grade.WITNESS
    is_placed = is_witness or detail.node is not None or detail.cause in {Cause.HARDWARE, Cause.DRIVER}
    return replace(
        detail,
        origin=Origin.SIGNAL,
        at=signal.at,
        order=0,
        what=f"{signal.kind}: {detail.what.removeprefix('the log: ')}",
        node=(signal.node or detail.node) if is_placed else None,
        toward=places.named_in(signal.detail or "", besides=signal.node) if is_witness else None,
        teller=_teller(signal),
    )


def _teller(signal: Signal) -> str | None:
    return signal.node or (None if signal.rank is None else f"rank {signal.rank}")


def _xid(word: str, detail: str | None) -> str | None:
    """Return the code of a signal about an Xid, whose number is in its kind or its detail."""
    if "xid" not in word:
        return None
    found = _NUMBER.search(word) or _NUMBER.search((detail or "").lower())
    return f"xid_{int(found[1])}" if found else None


def _of_kind(signal: Signal, kind: Kind, places: Places) -> Finding:
    is_witness = kind.grade is Grade.WITNESS
    toward = places.named_in(signal.detail, besides=signal.node) if is_witness and signal.detail else None
    told = f" ({quote(signal.detail)})" if signal.detail and not is_witness else ""
    return Finding(
        origin=Origin.SIGNAL,
        cause=kind.cause,
        weight=kind.weight,
        grade=kind.grade,
        what=f"{signal.kind}: {kind.what}{told}",
        at=signal.at,
        node=signal.node if kind.is_placed or is_witness else None,
        kind=kind.what,
        toward=toward,
        teller=_teller(signal),
        retry=Retry.AS_IS if kind.cause is Cause.PLATFORM and not kind.is_placed else None,
    )


def _of_xid(code: str, signal: Signal) -> Finding:
    kind = look_up(code)
    cause, weight, grade = base_of(code, kind.cause, kind.severity)
    what = f"{signal.kind}: {code}, {kind.title.lower()}"
    return Finding(Origin.SIGNAL, cause, weight, grade, what, signal.at, node=signal.node, kind=kind.kind or code)
