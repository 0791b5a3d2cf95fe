# SPDX-License-Identifier: Apache-2.0
"""What does a fault code mean? Its kind, whose fault it is, how bad it is, what it does here and what to do first.

The table itself is data in `catalogue` and `catalogue_dcgm`. A code that stands in neither is not refused: it is
kept, shown, and blocks until clean runs come after it, because unknown is not healthy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from registry.domain.catalogue import CROSSWALK, GROUPS, NO_FAULTS, Group
from registry.domain.catalogue_dcgm import DCGM_GROUPS


class Cause(StrEnum):
    """Who is to blame, as far as the code alone can tell."""

    HARDWARE = "hardware"
    """The device, its board, its memory or its links."""
    DRIVER = "driver"
    """The kernel driver or the firmware that it loads."""
    PLATFORM = "platform"
    """The node's setup, its settings, or the monitor itself: never a fault of the device."""
    USER = "user"
    """The program that was running."""
    UNKNOWN = "unknown"
    """The code does not say, or nobody knows the code."""


class Severity(StrEnum):
    """How much still works. For people and sorting; what the service does is decided by `Effect` alone."""

    INFO = "info"
    """Nothing is impaired."""
    WARNING = "warning"
    """A job may have been lost or a limit neared; the device goes on."""
    CRITICAL = "critical"
    """The device or the node cannot be trusted with work until something is done."""
    FATAL = "fatal"
    """The device does not work, or what it computes may be wrong, until it is reset, repaired or returned."""


class Effect(StrEnum):
    """What a fault does to admission, mildest first."""

    RECORD = "record"
    """History only: recorded and counted, hinders nothing."""
    HOLD = "hold"
    """Sets the passes of the node's boot to zero: nothing is admitted until clean runs come after it. No quarantine."""
    QUARANTINE = "quarantine"
    """Opens a hold on the device, released by clean runs that follow a boot, driver load or reset."""
    PERMANENT = "permanent"
    """Outlives a boot: opens a hold that only a person releases, whichever boot the evidence is from."""

    @property
    def rank(self) -> int:
        """Place in the order, 0 for the mildest. Compare ranks, not members: members compare as text."""
        return _EFFECT_ORDER.index(self)

    @property
    def is_blocking(self) -> bool:
        """True for `hold` and everything stronger."""
        return self is not Effect.RECORD


_EFFECT_ORDER = tuple(Effect)


class FirstAction(StrEnum):
    """What to try first, in the words of the repair ladder."""

    NONE = "none"
    """Nothing: follow what came with it."""
    KILL_JOB = "kill_job"
    """End and restart the program; leave the node alone."""
    MOVE_JOB = "move_job"
    """Run the work elsewhere and look at this node in peace."""
    RESET_GPU = "reset_gpu"
    """Drain the device and reset it."""
    REBOOT_NODE = "reboot_node"
    """Drain the node and boot it."""
    REPLACE_NODE = "replace_node"
    """Give the machine back for another; the device stays held here."""
    RETURN_DEVICE = "return_device"
    """Send the board back: no reset repairs it."""
    CONTACT_SUPPORT = "contact_support"
    """Ask the vendor; no step is known to help."""


MAINTENANCE, INJECTED = "maintenance", "injected"
"""Why a fault has no effect: its time falls into maintenance of its node, or somebody made it for a test."""


@dataclass(frozen=True, slots=True)
class FailureKind:
    """One row of the catalogue.

    `kind` is the canonical kind that joins the names that tools give to one fault, or None where none fits.
    `sources` are the public documents the row was made from; empty for codes of our own and for unknown ones.
    """

    code: str
    kind: str | None
    title: str
    cause: Cause
    severity: Severity
    effect: Effect
    first_action: FirstAction
    sources: tuple[str, ...] = ()
    is_fault: bool = True

    @property
    def proves_restart(self) -> bool:
        """True for codes that say the device began anew: what an `after_passes` hold waits for besides a boot."""
        return not self.is_fault

    @property
    def release_policy(self) -> str:
        """The release policy of a hold opened for this code: `manual` for permanent evidence, else `after_passes`.

        Also given for codes that open no hold by themselves, because a counting rule may open one for them.
        """
        return "manual" if self.effect is Effect.PERMANENT else "after_passes"


_DOTTED = r"[a-z0-9_]+(?:\.[a-z0-9_]+)*"
# Leading zeros and other spellings of the numbered families are refused: `xid_079` would be a second name of
# Xid 79, unknown to the catalogue, and so would turn a permanent hold into a mere reset of passes.
_CODE = re.compile(rf"xid_[1-9][0-9]*|sxid_[1-9][0-9]*|dcgm_[a-z0-9_]+|(?!s?xid|dcgm(?!\.)){_DOTTED}")
_CODE_MAX_LENGTH = 64


UNKNOWN_CODE_EFFECT = Effect.HOLD
"""What a code outside the catalogue does: it must not pass unseen, and is not enough to open a quarantine."""


def is_valid_code(code: str) -> bool:
    """Tell whether `code` has the shape of a fault code (1 to 64 characters); it need not be in the catalogue."""
    return len(code) <= _CODE_MAX_LENGTH and _CODE.fullmatch(code) is not None


def look_up(code: str) -> FailureKind:
    """Return what is known of `code`. Never raises: an unknown code answers with effect `hold`."""
    known = CATALOGUE.get(code)
    if known is not None:
        return known
    return FailureKind(
        code=code,
        kind=None,
        title=f"{code}: not in the catalogue, kept as it came",
        cause=Cause.UNKNOWN,
        severity=Severity.WARNING,
        effect=UNKNOWN_CODE_EFFECT,
        first_action=FirstAction.NONE,
    )


def _rows(groups: Iterable[Group], *, is_fault: bool = True) -> Iterable[FailureKind]:
    kinds = {code: kind for kind, codes in CROSSWALK.items() for code in codes}
    for group in groups:
        for code, title in group.titles.items():
            yield FailureKind(
                code=code,
                kind=kinds.get(code, code if "." in code else None),
                title=title,
                cause=Cause(group.cause),
                severity=Severity(group.severity),
                effect=Effect(group.effect),
                first_action=FirstAction(group.first_action),
                sources=group.sources,
                is_fault=is_fault,
            )


CATALOGUE: Mapping[str, FailureKind] = MappingProxyType(
    {row.code: row for row in (*_rows((*GROUPS, *DCGM_GROUPS)), *_rows(NO_FAULTS, is_fault=False))}
)
"""Every known code with its row. Look codes up with `look_up`, which also answers for unknown ones."""

KINDS: tuple[str, ...] = tuple(sorted({row.kind for row in CATALOGUE.values() if row.kind is not None}))
"""Every canonical kind that a fault can have."""
