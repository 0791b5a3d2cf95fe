# SPDX-License-Identifier: Apache-2.0
"""Under which name does Pratique know a Kubernetes Node? The controller and the webhook must mean the same one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PRATIQUE_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}")
"""Names of nodes that the service takes."""


_LABEL = re.compile(r"label:[A-Za-z0-9./_-]+")


def is_way(text: str) -> bool:
    """Tell whether a name can be found like this."""
    return text in {"name", "providerID"} or _LABEL.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Naming:
    """How a Node's name at Pratique is found. Raises ValueError for a way that there is not."""

    way: str = "name"

    def __post_init__(self) -> None:
        if not is_way(self.way):
            raise ValueError("give name, providerID, or label:KEY")

    def of(self, node: Mapping[str, Any]) -> str | None:
        """Return the name under which the node reports; None where it has none that could be one.

        Of a provider id the last part counts: `i-0abc` of `aws:///us-east-1a/i-0abc`.
        """
        found: object
        if self.way == "providerID":
            found = str(_member(node, "spec").get("providerID") or "").rpartition("/")[2]
        elif self.way == "name":
            found = _member(node, "metadata").get("name")
        else:
            found = _member(_member(node, "metadata"), "labels").get(self.way.removeprefix("label:"))
        return found if isinstance(found, str) and PRATIQUE_NAME.fullmatch(found) else None


def _member(holder: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = holder.get(name)
    return found if isinstance(found, Mapping) else {}
