# SPDX-License-Identifier: Apache-2.0
"""What does the agent do with a decision? Only what it was told to: write a file, run a command when it changes.

It cordons nothing and kills nothing by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from registry.agent.running import ToolRunner
from registry.agent.spool import BEGUN, write_whole
from registry.collectors.running import ToolFailed, ToolMissing
from registry.domain.decision import ExitCode, exit_code_for

NO_DECISION = "no_decision"
"""Stands in place of a reason code where the last answer is too old. No reason code of the server is called so."""

NO_DECISION_EXIT = 20
"""What `pratique admit` ends with when nobody decides."""

SUPERSEDED_EXIT = 14
"""What `pratique agent` ends with when a newer instance has this node's name."""

FILE_MODE = 0o644
"""Read by prologs and probes that run under other names; it holds nothing secret."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What holds for this node now, as a decision says it or, without one, as nobody does."""

    node: str
    admitted: bool
    disposition: str
    exit_code: int
    codes: tuple[str, ...]
    decision: Mapping[str, Any] | None = field(default=None, compare=False)
    detail: str = field(default="", compare=False)
    last_pass: Mapping[str, Any] | None = field(default=None, compare=False)

    def document(self, now: str) -> dict[str, Any]:
        """Give what the file holds and the command reads.

        `decision` is the server's own, where there is one, and `pass` what it said about the last look.
        """
        return {
            "node": self.node,
            "admitted": self.admitted,
            "disposition": self.disposition,
            "exit_code": self.exit_code,
            "codes": list(self.codes),
            "detail": self.detail,
            "written_at": now,
            "decision": self.decision,
            "pass": self.last_pass,
        }


def standing_of(decision: Mapping[str, Any], last_pass: Mapping[str, Any] | None = None) -> Standing:
    """Read the decision in an answer. Raises KeyError, TypeError or AttributeError for what is none."""
    codes = tuple(str(reason["code"]) for reason in decision["reasons"])
    admitted = decision["admitted"] is True
    code = ExitCode.ADMITTED if admitted else exit_code_for(admitted, codes)
    return Standing(
        str(decision["node"]), admitted, str(decision["disposition"]), int(code), codes, decision, last_pass=last_pass
    )


def without_decision(node: str, detail: str) -> Standing:
    """Say that nobody decides: no new work, and what runs may run on."""
    return Standing(
        node, admitted=False, disposition="hold", exit_code=NO_DECISION_EXIT, codes=(NO_DECISION,), detail=detail
    )


def superseded(node: str, detail: str) -> Standing:
    """Say that another instance stands for this node: this one takes no new work, ever."""
    return Standing(
        node,
        admitted=False,
        disposition="hold",
        exit_code=SUPERSEDED_EXIT,
        codes=("instance_superseded",),
        detail=detail,
    )


def why_not_counted(answer: Mapping[str, Any]) -> str | None:
    """Say why the look that was reported is no pass towards admission; None when it is one, or nobody said."""
    told = answer.get("pass")
    if not isinstance(told, Mapping) or told.get("counted") is not False:
        return None
    reason = ": ".join(str(part) for part in (told.get("because"), told.get("detail")) if part)
    return f"this look does not count as a pass: {reason or 'the server does not say why'}"


@dataclass(slots=True)
class Actor:
    """Writes `file` at every decision and runs `command` at every other one; either may be left out.

    The command reads the document from its standard input and the gist of it from `DECISION_*`. One that fails is run
    again at the next decision, because what it was to do is not done. `done` is what it was last run for.
    """

    file: Path | None
    command: Sequence[str]
    runner: ToolRunner
    say: Callable[[str], None]
    done: list[str] = field(default_factory=list)
    _written: bool = True

    def act(self, standing: Standing, now: str) -> None:
        """Do with a decision what is to be done. Never raises for what the file or the command does wrong."""
        document = json.dumps(standing.document(now), ensure_ascii=False).encode()
        if self.file is not None:
            self._write(self.file, document + b"\n")
        gist = [*self.command, *_gist(standing).values()]
        if self.command and gist != self.done and self._run(standing, document):
            self.done = gist

    def _write(self, file: Path, content: bytes) -> None:
        try:
            write_whole(file, content, file.with_name(f".{file.name}{BEGUN}"), FILE_MODE)
            self._written = True
        except OSError as error:
            if self._written:
                self.say(f"the decision cannot be written to {file}: {error.strerror}")
            self._written = False

    def _run(self, standing: Standing, document: bytes) -> bool:
        try:
            _, remark, code = self.runner.run(self.command, document, **_gist(standing))
        except (ToolMissing, ToolFailed) as error:
            self.say(f"the command for a changed decision did not do it: {error}")
            return False
        if code:
            self.say(f"the command for a changed decision ended with {code}: {remark or 'it said nothing'}")
        return code == 0


def _gist(standing: Standing) -> dict[str, str]:
    """What the command finds in its environment."""
    return {
        "DECISION_NODE": standing.node,
        "DECISION_ADMITTED": "true" if standing.admitted else "false",
        "DECISION_DISPOSITION": standing.disposition,
        "DECISION_EXIT_CODE": str(standing.exit_code),
        "DECISION_CODES": ",".join(standing.codes),
    }
