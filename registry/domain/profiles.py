# SPDX-License-Identifier: Apache-2.0
"""What should a node of this type carry, and which checks must it bring?

Operators add profiles of their own; the accelerated EC2 types are built in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from registry.domain.errors import FieldError, InvalidField
from registry.domain.reports import Kind

GPU_CHECKS = ("gpu.count", "gpu.identity", "gpu.ecc", "gpu.row_remap", "gpu.xid")
EFA_CHECKS = ("efa.count", "efa.link")

REQUIRED_CHECKS: tuple[str, ...] = GPU_CHECKS + EFA_CHECKS
"""What the built-in profiles ask of every run, each only where the profile has devices of the kind."""

OPTIONAL_CHECKS: tuple[str, ...] = (
    "gpu.recovery_action",
    "gpu.responding",
    "gpu.nvlink",
    "gpu.thermal",
    "dcgm.health",
    "dcgm.diag",
)
"""Known checks that nobody has to bring; a fail among them still blocks."""

COUNT_MAX = 1024
"""Most devices of one kind that a profile may expect: far above any machine, low enough to catch a typing error."""

MODELS_MAX = 64
MODEL_MAX_LENGTH = 128
CHECKS_MAX = 64

_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")
# Any check may be asked for, also one that only the operator's own script brings.
_CHECK_NAME = re.compile(r"[a-z0-9_.]{1,64}")
_FIELDS = ("name", "gpu", "efa", "required_checks", "per_boot_checks")


@dataclass(frozen=True, slots=True)
class Profile:
    """What is expected of a node.

    `efa_count` None means that EFAs are neither expected nor unexpected. Empty `gpu_models` allow every model.
    `required_checks` are needed in every run, `per_boot_checks` once clean in each boot.
    """

    name: str
    gpu_count: int
    gpu_models: tuple[str, ...] = ()
    efa_count: int | None = None
    required_checks: tuple[str, ...] = ()
    per_boot_checks: tuple[str, ...] = ()
    built_in: bool = False

    def expected(self, kind: str) -> int | None:
        """Return how many devices of `kind` there should be; None where the profile says nothing about the kind."""
        if kind == Kind.GPU:
            return self.gpu_count
        if kind == Kind.EFA:
            return self.efa_count
        return None

    @property
    def expected_kinds(self) -> tuple[str, ...]:
        """The kinds of which at least one device is expected: a list must speak for all of them."""
        return tuple(kind.value for kind in Kind if self.expected(kind))

    def model_matches(self, model: str | None) -> bool:
        """Tell whether a GPU of `model` may be here: any may where none are named, an unread one only then.

        Case and the width of blanks are ignored, nothing else: "H100" does not name every H100.
        """
        if not self.gpu_models:
            return True
        return model is not None and _plain(model) in {_plain(allowed) for allowed in self.gpu_models}

    def to_json(self) -> dict[str, Any]:
        """Return the profile as the API shows it; `from_json` reads it back. `efa.count` is null for None."""
        gpu: dict[str, Any] = {"count": self.gpu_count}
        if self.gpu_models:
            gpu["models"] = list(self.gpu_models)
        return {
            "name": self.name,
            "gpu": gpu,
            "efa": {"count": self.efa_count},
            "required_checks": list(self.required_checks),
            "per_boot_checks": list(self.per_boot_checks),
        }


def default_checks(gpu_count: int, efa_count: int | None) -> tuple[str, ...]:
    """Return the required checks of a profile that names none: those of the kinds it expects."""
    return (GPU_CHECKS if gpu_count else ()) + (EFA_CHECKS if efa_count else ())


def from_json(name: str, body: object) -> Profile:
    """Read the profile `name` from a JSON value.

    Without `efa` nothing is said about EFAs; without `required_checks` those of the expected kinds are required.
    Raises InvalidField with one FieldError (JSON Pointer) for every problem found, not only for the first.
    """
    errors: list[FieldError] = []
    if _NAME.fullmatch(name) is None:
        errors.append(FieldError("/name", "must be 1 to 128 of the characters A-Z a-z 0-9 . _ -"))
    fields = _object(body, "", _FIELDS, errors)
    if fields.get("name", name) != name:
        errors.append(FieldError("/name", f"must be {name!r}, the name in the address, or be left out"))
    if "gpu" not in fields and isinstance(body, Mapping):
        errors.append(FieldError("/gpu", "is required"))
    gpu = _object(fields.get("gpu", {}), "/gpu", ("count", "models"), errors)
    efa = _object(fields.get("efa", {}), "/efa", ("count",), errors)
    gpu_count = _count(gpu.get("count"), "/gpu/count", errors) if "gpu" in fields else 0
    efa_count = None if efa.get("count") is None else _count(efa["count"], "/efa/count", errors)
    models = _texts(gpu.get("models", []), "/gpu/models", errors, _MODEL_SHAPE, limit=MODELS_MAX)
    default = list(default_checks(gpu_count, efa_count))
    required = _checks(fields.get("required_checks", default), "/required_checks", errors)
    per_boot = _checks(fields.get("per_boot_checks", []), "/per_boot_checks", errors)
    if errors:
        raise InvalidField(f"profile {name!r} has {len(errors)} invalid field(s)", errors=tuple(errors))
    return Profile(name, gpu_count, models, efa_count, required, per_boot)


def _plain(model: str) -> str:
    return " ".join(model.split()).casefold()


def _object(value: object, pointer: str, known: tuple[str, ...], errors: list[FieldError]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        errors.append(FieldError(pointer, "must be an object"))
        return {}
    for field in value:
        if field not in known:
            # RFC 6901, section 3: "~" and "/" in a name are written "~0" and "~1".
            escaped = str(field).replace("~", "~0").replace("/", "~1")
            errors.append(FieldError(f"{pointer}/{escaped}", "is not a known field"))
    return value


def _count(value: object, pointer: str, errors: list[FieldError]) -> int:
    # bool is an int to Python: `true` would become one GPU.
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= COUNT_MAX:
        return value
    errors.append(FieldError(pointer, f"must be a whole number from 0 to {COUNT_MAX}"))
    return 0


def _is_model(text: str) -> bool:
    return bool(text.strip()) and len(text) <= MODEL_MAX_LENGTH and text.isprintable()


def _is_check(text: str) -> bool:
    return _CHECK_NAME.fullmatch(text) is not None


_MODEL_SHAPE = (_is_model, f"must be a model's name of 1 to {MODEL_MAX_LENGTH} printable characters")
_CHECK_SHAPE = (_is_check, "must be a check's name: 1 to 64 of the characters a-z 0-9 _ .")


def _checks(value: object, pointer: str, errors: list[FieldError]) -> tuple[str, ...]:
    return _texts(value, pointer, errors, _CHECK_SHAPE, limit=CHECKS_MAX)


def _texts(
    value: object, pointer: str, errors: list[FieldError], shape: tuple[Callable[[str], bool], str], *, limit: int
) -> tuple[str, ...]:
    is_good, must = shape
    if not isinstance(value, list) or len(value) > limit:
        errors.append(FieldError(pointer, f"must be a list of at most {limit} texts"))
        return ()
    for index, text in enumerate(value):
        if not isinstance(text, str) or not is_good(text):
            errors.append(FieldError(f"{pointer}/{index}", must))
        elif text in value[:index]:
            errors.append(FieldError(f"{pointer}/{index}", "is named twice"))
    return tuple(text for text in value if isinstance(text, str))


def _sizes(family: str, gpu_counts: Mapping[str, int]) -> dict[str, int]:
    return {f"{family}.{size}": count for size, count in gpu_counts.items()}


_ONE_GPU_SIZES = {"xlarge": 1, "2xlarge": 1, "4xlarge": 1, "8xlarge": 1, "16xlarge": 1}
_UP_TO_EIGHT = {**_ONE_GPU_SIZES, "12xlarge": 4, "24xlarge": 4, "48xlarge": 8}

# GPUs per type as the EKS node monitoring agent expects them: https://github.com/aws/eks-node-monitoring-agent
_GPU_COUNTS: dict[str, int] = {
    **_sizes("g4dn", {**_ONE_GPU_SIZES, "12xlarge": 4, "metal": 8}),
    **_sizes("g5", _UP_TO_EIGHT),
    **_sizes("g5g", {**_ONE_GPU_SIZES, "16xlarge": 2, "metal": 2}),
    **_sizes("g6", _UP_TO_EIGHT),
    **_sizes("g6e", _UP_TO_EIGHT),
    **_sizes("gr6", {"4xlarge": 1, "8xlarge": 1}),
    **_sizes("g7", {"48xlarge": 8}),
    **_sizes("g7e", {"2xlarge": 1, "4xlarge": 1, "8xlarge": 1, "12xlarge": 2, "24xlarge": 4, "48xlarge": 8}),
    **_sizes("p3", {"2xlarge": 1, "8xlarge": 4, "16xlarge": 8}),
    **_sizes("p3dn", {"24xlarge": 8}),
    **_sizes("p4d", {"24xlarge": 8}),
    **_sizes("p4de", {"24xlarge": 8}),
    **_sizes("p5", {"4xlarge": 1, "48xlarge": 8}),
    **_sizes("p5e", {"48xlarge": 8}),
    **_sizes("p5en", {"48xlarge": 8}),
    **_sizes("p6-b200", {"48xlarge": 8}),
    **_sizes("p6-b300", {"48xlarge": 8}),
    **_sizes("p6e-gb200", {"36xlarge": 4}),
}

# EFAs per type where a published check counts them: https://github.com/awslabs/awsome-distributed-ai
# Elsewhere a number would be a guess, and a wrong one would keep good nodes out: neither expected nor unexpected.
_EFA_COUNTS: dict[str, int] = {
    "g6.xlarge": 0,
    "g6.48xlarge": 1,
    "p4d.24xlarge": 4,
    "p4de.24xlarge": 4,
    "p5.48xlarge": 32,
    "p5e.48xlarge": 32,
    "p5en.48xlarge": 16,
    "p6-b200.48xlarge": 8,
}


def _built_in(name: str, gpu_count: int) -> Profile:
    efa_count = _EFA_COUNTS.get(name)
    checks = default_checks(gpu_count, efa_count)
    return Profile(name, gpu_count, efa_count=efa_count, required_checks=checks, built_in=True)


BUILT_IN: Mapping[str, Profile] = MappingProxyType({n: _built_in(n, count) for n, count in _GPU_COUNTS.items()})
"""The accelerated EC2 types by name. They name no models: a type is sold with one model at a time."""
