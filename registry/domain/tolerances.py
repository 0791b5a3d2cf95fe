# SPDX-License-Identifier: Apache-2.0
"""How long may a condition last before it is a failure, and how long must it be over to be over?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

FLAPPING = ".flapping"
"""What the name of a condition ends with that is nothing but the coming and going of another one."""

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}(\.[a-z0-9][a-z0-9_]{0,63}){0,4}")
"""A condition bears the name of its check."""

_WORDS_OF_HARDWARE = frozenset(
    {
        *("gpu", "efa", "dcgm", "nvswitch", "nvlink", "fabric"),
        # First words of the types of a Kubernetes Node: https://github.com/NVIDIA/NVSentinel (Nv…, SysLogs…),
        # https://github.com/facebookresearch/gcm (Dcgmi…, Smi…, Xid…), EKS (AcceleratedHardwareReady).
        *("accelerated", "dcgmi", "nv", "nvcre", "smi", "sys", "xid"),
    }
)
_PREFIXES_OF_HARDWARE = ("gpu", "amdgpu")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How patient the policy is with one condition. All times are seconds; None is as for others of its sort.

    `tolerance_seconds` is how long it may last before it is a failure, `clear_seconds` how long all must be well before
    it is over, `unknown_seconds` how long nobody may be able to look before that is told. With `never` it is never
    more than a problem.
    """

    name: str
    tolerance_seconds: int | None = None
    clear_seconds: int | None = None
    unknown_seconds: int | None = None
    never: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return what it says, as the policy shows it."""
        shown = {
            "tolerance_seconds": self.tolerance_seconds,
            "clear_seconds": self.clear_seconds,
            "unknown_seconds": self.unknown_seconds,
        }
        said: dict[str, Any] = {name: value for name, value in shown.items() if value is not None}
        return {**said, "never": True} if self.never else said


@dataclass(frozen=True, slots=True)
class Limits:
    """What holds for one condition, all defaults put in. `tolerance_seconds` is None where it never is a failure."""

    tolerance_seconds: int | None
    clear_seconds: int
    unknown_seconds: int


DEFAULT_TOLERANCES: tuple[Tolerance, ...] = (
    # Two records contradict each other. No repair of the machine mends that, so no work is moved away for it.
    Tolerance("efa.identity", never=True),
    Tolerance("gpu.identity", never=True),
)
"""What differs from the rest in a policy that says nothing of it."""


def is_accelerated(name: str) -> bool:
    """Tell whether a condition speaks of the accelerators and what joins them, by its name.

    Ours begin with the kind of device; those of a Kubernetes Node are `condition.<type>`, whose first word says it.
    """
    word, _, rest = name.partition(".")
    if word == "condition":
        word = rest.partition("_")[0]
    return word in _WORDS_OF_HARDWARE or word.startswith(_PREFIXES_OF_HARDWARE)
