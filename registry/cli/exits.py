# SPDX-License-Identifier: Apache-2.0
"""What does a command end with when there is no decision to end with?

The codes of decisions stand in `registry.domain.decision`.
"""

from __future__ import annotations

from enum import IntEnum

from registry.client import ClientError, NotAuthorised, ProblemAnswer


class Exit(IntEnum):
    """Exit codes of every command that speaks HTTP. Never used with another meaning."""

    DONE = 0
    """Done."""
    REFUSED = 1
    """The server refused, wholly or in part, and said why."""
    USAGE = 2
    """The command line or the settings cannot be followed, or nobody agreed to what is hard to undo."""
    NOT_AUTHORISED = 3
    """The token is not known, or not good for this, or was traded by this instance before."""
    HARDWARE_UNREADABLE = 4
    """The hardware here could not be read: a tool's output is missing, empty, or not whole."""
    SUPERSEDED = 14
    """A newer instance has this node's name: the agent of the older one has nothing more to say."""
    NO_DECISION = 20
    """No decision: the server cannot be reached or cannot answer. Treat the node as not admitted."""


def exit_of(error: ClientError) -> Exit:
    """Give the exit code for an answer that was none."""
    if isinstance(error, NotAuthorised) or (isinstance(error, ProblemAnswer) and error.code == "already_joined"):
        return Exit.NOT_AUTHORISED
    if not isinstance(error, ProblemAnswer) or error.status >= 500 or error.code == "rate_limited":
        return Exit.NO_DECISION
    if error.code == "part_unreadable":
        return Exit.HARDWARE_UNREADABLE
    return Exit.REFUSED
