# SPDX-License-Identifier: Apache-2.0
"""How is the text of nvidia-smi taken in, and which remarks does the tool make around its documents?"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from registry.domain.errors import PartUnreadable
from registry.domain.reports import Notice

MAX_DEVICES = 1024
"""More GPUs than any machine has: a document that lists more is not what it says it is."""
MAX_TEXT = 256
"""Characters of one value. The longest that nvidia-smi prints, a product name, has 96 at most: NVML's
`NVML_DEVICE_NAME_V2_BUFFER_SIZE`, https://docs.nvidia.com/deploy/nvml-api/group__nvmlConstants.html"""
_MAX_REMARKS = 100

_NO_HANDLE = re.compile(r"unable to determine the device handle for gpu", re.IGNORECASE)
_INFOROM = re.compile(r"warning:\s*inforom is corrupted at gpu\b", re.IGNORECASE)
_WARNING = re.compile(r"warning\b", re.IGNORECASE)
_FAILED = re.compile(r"nvidia-smi has failed|no devices (?:were )?found|failed to initialize nvml", re.IGNORECASE)


def decode(data: bytes) -> str:
    """Return the text of a tool's output: UTF-8 with or without a byte order mark, or UTF-16 with one.

    Raises PartUnreadable for an empty body and for bytes that are no text.
    """
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise PartUnreadable(f"the output is not text ({error.reason}); send what nvidia-smi printed") from error
    if not text.strip():
        raise PartUnreadable("the output is empty; check that nvidia-smi ran, and send what it printed")
    if "\0" in text:
        raise PartUnreadable("the output holds zero bytes; send what nvidia-smi printed, as text")
    if text.lstrip()[0] in "{[":
        raise PartUnreadable("this looks like JSON; send what nvidia-smi itself printed")
    return text


def lines(text: str) -> Iterator[str]:
    """Return the lines one by one, without their ends; LF, CR LF and CR all end a line."""
    return (line.rstrip("\n") for line in io.StringIO(text, newline=None))


def shown(text: str) -> str:
    """Return a text from outside as it may stand in a message: quoted and cut."""
    return repr(text if len(text) <= 60 else f"{text[:60]}…")


@dataclass(slots=True)
class Remarks:
    """What nvidia-smi says beside its document: GPUs it cannot reach, warnings, a corrupted infoROM."""

    unreachable: list[str] = field(default_factory=list)
    inforom: list[str] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def take(self, line: str) -> bool:
        """Keep the line if it is a remark, and say whether it was one. A blank line is.

        Raises PartUnreadable when the line says that nvidia-smi could not do its work, or is one of too many.
        """
        line = line.strip()
        if not line:
            return True
        if _FAILED.match(line):
            raise PartUnreadable(f"nvidia-smi did not list any GPU: {shown(line)}; see to the driver and try again")
        if _NO_HANDLE.match(line):
            self.unreachable.append(line[:MAX_TEXT])
        elif _INFOROM.match(line):
            self.inforom.append(line[:MAX_TEXT])
        elif _WARNING.match(line):
            self.notices.append(Notice("tool_warning", line[:MAX_TEXT]))
        else:
            return False
        if len(self.unreachable) > MAX_DEVICES or len(self.inforom) + len(self.notices) > _MAX_REMARKS:
            raise PartUnreadable("there are more warnings around the document than can be true; send one run only")
        return True
