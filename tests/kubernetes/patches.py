# SPDX-License-Identifier: Apache-2.0
"""What do the three kinds of patches make of an object? As an API server does it, for the fields that Nodes have.

JSON Patch: RFC 6902. JSON Merge Patch: RFC 7386. Strategic merge:
https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md
"""

from __future__ import annotations

import copy
from typing import Any

MERGE_KEYS = {"conditions": "type", "addresses": "type"}
"""Lists of a Node that are merged by a key; every other one, `taints` too, is replaced whole."""


class BadPatch(Exception):
    """It cannot be applied."""


def merge(target: Any, patch: Any) -> Any:
    """JSON Merge Patch."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


def strategic(target: Any, patch: Any) -> Any:
    """Strategic merge patch."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if name.startswith("$"):
            continue
        if value is None:
            result.pop(name, None)
        elif isinstance(value, list) and name in MERGE_KEYS:
            result[name] = _merged(result.get(name) or [], value, MERGE_KEYS[name])
        else:
            result[name] = strategic(result.get(name), value)
    return result


def _merged(standing: list[Any], patch: list[Any], key: str) -> list[Any]:
    result = [copy.deepcopy(one) for one in standing]
    for change in patch:
        at = next((at for at, one in enumerate(result) if one.get(key) == change.get(key)), None)
        if change.get("$patch") == "delete":
            result = [one for one in result if one.get(key) != change.get(key)]
        elif at is None:
            result.append(copy.deepcopy(change))
        else:
            result[at] = strategic(result[at], change)
    return result


def json_patch(target: Any, operations: Any) -> Any:
    """JSON Patch. Raises BadPatch."""
    document = copy.deepcopy(target)
    for one in operations:
        *path, last = [part.replace("~1", "/").replace("~0", "~") for part in one["path"].split("/")[1:]]
        holder = document
        try:
            for part in path:
                holder = holder[int(part)] if isinstance(holder, list) else holder[part]
            _operate(holder, last, one)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise BadPatch(f"{one['op']} {one['path']}: {error}") from error
    return document


def _operate(holder: Any, last: str, one: dict[str, Any]) -> None:
    at: Any = last if isinstance(holder, dict) else len(holder) if last == "-" else int(last)
    if one["op"] == "test":
        if holder[at] != one["value"]:
            raise ValueError("the test failed")
    elif one["op"] == "remove":
        del holder[at]
    elif one["op"] == "add" and isinstance(holder, list):
        holder.insert(at, one["value"])
    elif one["op"] in {"add", "replace"}:
        if one["op"] == "replace":
            holder[at]
        holder[at] = one["value"]
    else:
        raise ValueError("an operation that nobody needed yet")
