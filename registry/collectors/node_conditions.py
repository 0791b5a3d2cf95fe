# SPDX-License-Identifier: Apache-2.0
"""What do the conditions of a Kubernetes Node say about this machine?

The object is that of `kubectl get node NAME -o json`. A condition is known by its type alone: reasons change their
wording, and messages more so. https://kubernetes.io/docs/reference/node/node-status/#condition
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from registry.collectors.node_condition_types import BLIND_REASONS, KNOWN, MONITORS, NOT_OURS, ConditionType
from registry.collectors.running import Runner
from registry.domain.errors import PartUnreadable
from registry.domain.reports import CheckResult, CheckStatus, Findings, Notice, ReportedFailure
from registry.domain.times import brief, parse_rfc3339

START_WINDOW_SECONDS = 60
"""How long a good status must have lasted before it is believed. node-problem-detector begins with every condition
False and looks only then; two rules that share a condition overwrite each other every minute.
https://github.com/kubernetes/node-problem-detector/issues/304"""

_MAX_CONDITIONS = 256
_MAX_CODES = 64
_MAX_NOTICES = 50
_MAX_TEXT = 256
_MAX_MESSAGE = 500

_XID = re.compile(r"xid[ _:#-]{0,3}(?:error[ _:#-]{0,3})?0{0,3}([1-9]\d{0,3})(?!\d)", re.IGNORECASE)
_ERROR_CODE = re.compile(r"ErrorCode:0{0,3}([1-9]\d{0,3})(?!\d)")
"""How NVSentinel names the code in the message of `SysLogsXIDError`."""
_KEY = re.compile(r"0{0,3}([1-9]\d{0,3})")


def collect(run: Runner, node: str) -> Findings:
    """Ask the cluster for this node's object and read it. Raises ToolMissing, ToolFailed, PartUnreadable."""
    return parse(run(("kubectl", "get", "node", node, "--output", "json")))


def parse(data: bytes, *, node_name: str | None = None, provider_id: str = "") -> Findings:
    """Read a Node object, or a List that holds one.

    Each known condition gives one check, `unknown` for the status Unknown and for one that its detector cannot have
    looked at yet. Xid codes in the reason of a bad condition are failures of the node since the condition changed.
    Types nobody knows are named in the warnings and have no effect. With `node_name`, an object that seems to be of
    another machine is named there too: a cluster may know a node by another name than we do. Raises PartUnreadable.
    """
    node = _load(data)
    conditions = _read_conditions(node)
    seen_at = max((one.heartbeat for one in conditions if one.heartbeat), default=None)
    checks: list[CheckResult] = []
    failures: list[ReportedFailure] = []
    unknown: list[str] = []
    for one in conditions:
        rule = KNOWN.get(one.type)
        if rule is not None:
            status = _judge(one, rule, seen_at)
            checks.append(CheckResult(rule.check, status, message=_tell(one, status)))
            if status in {CheckStatus.FAIL, CheckStatus.WARN}:
                failures.extend(_failures(_name_of(node), one))
        elif one.type not in NOT_OURS:
            unknown.append(one.type)
    return Findings(
        checks=tuple(checks),
        failures=tuple(failures),
        warnings=(*_other_node(node, node_name, provider_id), *_notices(unknown)),
    )


@dataclass(frozen=True, slots=True)
class _Condition:
    """One condition. `codes` are the Xids that its reason names."""

    type: str
    status: str
    reason: str
    message: str
    codes: tuple[int, ...]
    since: datetime | None
    heartbeat: datetime | None


def _load(data: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise PartUnreadable("this is not JSON; send the output of kubectl get node NAME -o json") from error
    if isinstance(found, dict) and str(found.get("kind", "")).endswith("List"):
        items = found.get("items")
        if not isinstance(items, list) or len(items) != 1:
            raise PartUnreadable("the list does not hold exactly one node; ask for this node by its name")
        found = items[0]
    if not isinstance(found, dict) or found.get("kind", "Node") != "Node":
        raise PartUnreadable("this is not a Kubernetes Node; send the output of kubectl get node NAME -o json")
    return found


def _read_conditions(node: Mapping[str, Any]) -> list[_Condition]:
    status = node.get("status")
    listed = status.get("conditions") if isinstance(status, dict) else None
    if not isinstance(listed, list):
        raise PartUnreadable("the node has no status.conditions; send the whole object, with -o json")
    if len(listed) > _MAX_CONDITIONS:
        raise PartUnreadable(f"the node has {len(listed)} conditions; none has more than {_MAX_CONDITIONS}")
    return [_read(one) for one in listed]


def _read(one: object) -> _Condition:
    if not isinstance(one, dict) or not isinstance(one.get("type"), str):
        raise PartUnreadable("a condition has no type; send the object as kubectl printed it")
    reason, status = one.get("reason"), one.get("status")
    message = _plain(one.get("message"), _MAX_MESSAGE)
    codes = _codes_in(reason)
    if one["type"] == "SysLogsXIDError":
        codes += [int(code) for code in _ERROR_CODE.findall(message)]
    return _Condition(
        type=_plain(one["type"], _MAX_TEXT),
        # Some write a boolean where Kubernetes has the words "True", "False" and "Unknown".
        status=str(status).capitalize() if isinstance(status, bool | str) else "",
        reason=_plain(reason, _MAX_TEXT),
        message=message,
        codes=tuple(dict.fromkeys(codes))[:_MAX_CODES],
        since=_time(one.get("lastTransitionTime")),
        heartbeat=_time(one.get("lastHeartbeatTime")),
    )


def _codes_in(reason: object) -> list[int]:
    """Return the Xids of a reason: keys of an object (`{"31": true}`, also as text), items of a list, or words."""
    if isinstance(reason, str) and reason.lstrip()[:1] in {"{", "["}:
        try:
            reason = json.loads(reason)
        except (ValueError, RecursionError):
            return [int(code) for code in _XID.findall(str(reason))]
    if isinstance(reason, str):
        return [int(code) for code in _XID.findall(reason)]
    if isinstance(reason, dict):
        reason = [key for key, is_seen in reason.items() if is_seen]
    listed = reason if isinstance(reason, list) else []
    found = [_KEY.fullmatch(str(one)) for one in listed if isinstance(one, int | str)]
    return [int(one[1]) for one in found if one]


def _judge(one: _Condition, rule: ConditionType, seen_at: datetime | None) -> CheckStatus:
    """Judge a status. `seen_at`, the newest heartbeat of any condition, is the time at which the object was true.

    The heartbeat of the condition itself decides nothing: some detectors move it every minute, others never.
    """
    if one.status not in {"True", "False"}:
        return CheckStatus.UNKNOWN
    is_bad = one.status == rule.bad
    if is_bad and rule.amounts_to is CheckStatus.FAIL and one.reason in BLIND_REASONS:
        return CheckStatus.UNKNOWN
    if (not is_bad or rule.starts_bad) and _is_young(one, seen_at):
        return CheckStatus.UNKNOWN
    return rule.amounts_to if is_bad else CheckStatus.PASS


def _is_young(one: _Condition, seen_at: datetime | None) -> bool:
    """Has the status not lasted long enough to be more than what its detector begins with?"""
    if one.since is None or seen_at is None:
        return False
    return seen_at - one.since < timedelta(seconds=START_WINDOW_SECONDS)


def _tell(one: _Condition, status: CheckStatus) -> str | None:
    """Quote the condition, with the time of its change: the same sentence for as long as it lasts."""
    if status is CheckStatus.PASS:
        return None
    since = f" since {brief(one.since)}" if one.since else ""
    said = ": ".join(text for text in (one.reason, one.message) if text)
    is_doubted = status is CheckStatus.UNKNOWN and one.status in {"True", "False"} and one.reason not in BLIND_REASONS
    doubt = ", too short a time to be believed" if is_doubted and one.type not in MONITORS else ""
    return f"{one.type} is {_plain(one.status, _MAX_TEXT) or 'unset'}{since}{doubt}{f' ({said})' if said else ''}"


def _failures(node: str, one: _Condition) -> Iterator[ReportedFailure]:
    """Name each Xid once for each time the condition changed, however often it is read and its heartbeat moves."""
    since = one.since.isoformat() if one.since else ""
    for code in one.codes:
        digest = hashlib.sha256(f"{node}\n{one.type}\n{since}\n{code}".encode()).hexdigest()
        yield ReportedFailure(
            failure_id=f"condition-{digest[:32]}",
            code=f"xid_{code}",
            occurred_at=one.since,
            message=_tell(one, CheckStatus.FAIL),
        )


def _name_of(node: Mapping[str, Any]) -> str:
    """Return what tells this node object from another that later bears its name."""
    meta = node.get("metadata")
    named = (meta.get("uid"), meta.get("name")) if isinstance(meta, dict) else ()
    return " ".join(_plain(one, _MAX_TEXT) for one in named)


def _other_node(node: Mapping[str, Any], name: str | None, provider_id: str) -> tuple[Notice, ...]:
    """Say that the object names another machine: by its instance where both tell one, else by its name.

    https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/node-v1/#NodeSpec
    """
    meta, spec = node.get("metadata"), node.get("spec")
    theirs = _plain(meta.get("name"), _MAX_TEXT) if isinstance(meta, dict) else ""
    instance = _plain(spec.get("providerID"), _MAX_TEXT) if isinstance(spec, dict) else ""
    if name is None or not theirs:
        return ()
    if instance and provider_id:
        is_other = instance.rpartition("/")[2] != provider_id.rpartition("/")[2]
    else:
        is_other = theirs.partition(".")[0].casefold() != name.partition(".")[0].casefold()
    said = f"the object is that of node {theirs}{f' ({instance})' if instance else ''}, the report that of {name}"
    return (Notice("other_node", f"{said}: see that it is the same machine"),) if is_other else ()


def _notices(types: Iterable[str]) -> tuple[Notice, ...]:
    found = list(dict.fromkeys(types))
    notices = [Notice("unknown_condition", f"the condition {one} is not known here and has no effect") for one in found]
    if len(notices) > _MAX_NOTICES:
        more = len(notices) - _MAX_NOTICES
        notices[_MAX_NOTICES:] = [Notice("unknown_condition", f"{more} more conditions are not known")]
    return tuple(notices)


def _plain(value: object, limit: int) -> str:
    """Return a text as it may stand in a message: one line, printable, and cut."""
    text = value if isinstance(value, str) else ""
    return "".join(letter if letter.isprintable() else " " for letter in text[:limit]).strip()


def _time(value: object) -> datetime | None:
    try:
        return parse_rfc3339(value) if isinstance(value, str) else None
    except ValueError:
        return None
