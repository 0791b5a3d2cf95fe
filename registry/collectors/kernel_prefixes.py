# SPDX-License-Identifier: Apache-2.0
"""What may stand before a message of the kernel, who wrote a line that the driver's words are in, and which forms of a
log are not read at all?

A message is the driver's only where it begins behind a known prefix. Behind the tag of a program it is that program's
text, and says nothing. Behind anything else it can be either: it is not taken, and not passed over.
"""

from __future__ import annotations

import re
from enum import Enum

OWN = ("NVRM:", "nvidia-nvswitch")
"""How the driver's messages begin."""

_ISO = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:?\d{2})"
CONTAINER = re.compile(rf"{_ISO} (?:std(?:out|err) [FP] |(?=\[ *\d))")
"""What container runtimes and `kubectl logs --timestamps` put before a line. Its time is that of the printing.
https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md"""

PROTOCOL = re.compile(
    rf"(?:<(?P<priority>\d{{1,3}})>)?1 (?P<time>{_ISO}|-) \S{{1,255}} (?P<program>\S{{1,48}}) \S{{1,128}} \S{{1,32}} "
    r"(?:-|(?:\[[^\]]{0,512}\]){1,16}) \ufeff?"
)
"""The head of a line of RFC 5424: priority, time, host, program, process, message id, structured data.
https://www.rfc-editor.org/rfc/rfc5424#section-6"""

_DRIVERS = re.compile(r"(?:(?<!\w)|(?<=[0-9\[]m))(?:NVRM: |nvidia-nvswitch\d{0,4}: ?SXid)")
_PROCESS_TAG = re.compile(r"(?:^|\s)(?!kernel\[)[^\s:\[\]\"'{}]{1,64}\[\d{1,10}\]: ")
_SYSLOG_TAG = re.compile(r"\S{1,255} (?:$|(?:.{0,128}\s)?(?!kernel: )[^\s:\"'{}]{1,64}: )")
_PROCESS_NAME = re.compile(r"(?:NVRM:|nvidia-nvswitch).{0,15}?\[\d{1,10}\]: ")

_FOREIGN: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb'\s{0,64}\{\s{0,64}"dmesg"'), "the JSON of dmesg"),
    (re.compile(rb"\s{0,64}\[\s{0,64}[{\]]"), "a JSON array"),
    (re.compile(rb"\s{0,64}\{[ \t\r]{0,16}\n"), "JSON over several lines"),
    (re.compile(rb"data: ?\{"), "a stream of server-sent events"),
    (re.compile(rb"__(?:CURSOR|REALTIME_TIMESTAMP)="), "the journal's export format"),
    (re.compile(rb"(?:--[^\n]{0,256}\n)?[^\n\[]{10,80} \[s=[0-9a-f]{32};"), "the journal's verbose form"),
)
_FOREIGN_AT_MOST = 1024


class Head(Enum):
    """Where a line comes from, as its prefix tells."""

    KERNEL = "kernel"
    """dmesg or the ring buffer itself: no other program has put anything before the message."""
    SYSLOG = "syslog"
    """A host stands there and the name of a program, which is not the kernel."""
    PROGRAM = "program"
    """The log itself says that a program wrote it."""
    NONE = "none"
    """No prefix was known."""


def is_behind(text: str, head: Head) -> bool:
    """Tell whether the driver's words stand in a text behind something that nobody here knows.

    `text` is what follows the known prefix, whose kind is `head`. False where the text begins with them, holds none,
    or holds them behind the tag of a program.
    """
    found = _DRIVERS.search(text)
    if found is None or head is Head.PROGRAM or text.startswith(OWN):
        return False
    before = text[: found.start()]
    if head is Head.SYSLOG and _SYSLOG_TAG.match(before):
        return False
    return not _PROCESS_TAG.search(before) and not is_name_of_process(text[found.start() :])


def is_name_of_process(message: str) -> bool:
    """Tell whether what looks like the driver's words is the name of a process, in a line such as `name[77]: segfault`.

    Anybody may choose one, of 15 characters (`TASK_COMM_LEN` of include/linux/sched.h).
    """
    return _PROCESS_NAME.match(message) is not None


def name_foreign(data: bytes) -> str | None:
    """Name the form of a log that is not read here, by how it begins. None for every other text."""
    start = data[:_FOREIGN_AT_MOST]
    return next((name for pattern, name in _FOREIGN if pattern.match(start)), None)
