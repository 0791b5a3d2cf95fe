# SPDX-License-Identifier: Apache-2.0
"""Which messages would the nodes of Titan have sent, and what becomes of them when the service gets them now?

A location is a node that shows what GPU it carries. It reports its whole list when that changes, and its failures when
they happen, each report the first of a boot: nobody changes a card under power, and these failures end a boot. The
30-second repeats between are left out, but for those of nodes that show one GPU at the same time: that is how they come
to dispute it. Where the file tells of a failure at a location that did not show the GPU then, it is not the node that
tells of it but an operator: at once, or when the GPU has been shown by some node, for the service takes no failure of
what nobody has seen. The node then reports from its next boot.

The clock of the service is the file's time. What lies between two moments of a dispute is told to it as an outage of
its own, so that the repeats left out make nobody stale. Messages have the same ids in each run, and a message that is
known changes nothing: a run that was interrupted goes on in its database with the moment where it stopped.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from registry.domain.actors import Actor, ActorKind
from registry.domain.failures import Effect
from registry.domain.policy import Policy
from registry.domain.reports import DeviceEntry, Kind, Report, ReportedFailure
from registry.domain.times import parse_rfc3339
from registry.services.failure_pages import list_failures
from registry.services.failures import record_failures
from registry.services.history import list_events
from registry.services.life import beat
from registry.services.pages import PageRequest
from registry.services.profiles import set_profile
from registry.services.quarantine import OpenQuarantines, open_quarantines
from registry.services.reports import accept_report
from registry.store.database import Database
from tests.bench.titan_counts import EPISODES_HELD_AT, WORDS, begins
from tests.bench.titan_rows import CODES, Fault, Lives, Spell

PROFILE = "titan"
IMPORTER = Actor(ActorKind.OPERATOR, "importer")
POLICY = Policy(effects=tuple((code, Effect.RECORD) for code in CODES.values()), rules=())
"""Nothing is held but by those who try out when to hold: the operators below."""

HOLDERS = {number: Actor(ActorKind.OPERATOR, f"at-the-{WORDS[number]}-episode") for number in EPISODES_HELD_AT}
"""Who holds a board when its n-th episode begins."""

TOGETHER = 500
"""Messages of one moment that are written in one transaction."""

Message = Report | ReportedFailure


@dataclass(frozen=True, slots=True)
class Moment:
    """What is told at one time, in this order. `is_disputed`: by nodes of which two show one GPU."""

    at: datetime
    messages: Sequence[Message]
    is_disputed: bool = False

    @property
    def failed(self) -> list[str]:
        """The serials of which a failure is told."""
        told = [one for message in self.messages for one in _failures_in(message)]
        return list(dict.fromkeys(one.device for one in told if one.device))


def _failures_in(message: Message) -> Sequence[ReportedFailure]:
    return message.failures if isinstance(message, Report) else (message,)


@dataclass
class Floor:
    """What every node shows, how often it has spoken and booted, and what cannot be told yet."""

    lists: defaultdict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    """By location: the serials it shows, each with the number of its slot."""

    shown_by: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    boots: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    waiting: list[Fault] = field(default_factory=list)

    def shows(self, fault: Fault) -> bool:
        """Whether the node where a GPU failed shows it now."""
        return fault.serial in self.lists[fault.location]

    def disputants(self, speakers: set[str]) -> set[str]:
        """The nodes of which another shows the same GPU, among these and those that dispute one with them."""
        shown = [self.shown_by[serial] for location in speakers for serial in self.lists[location]]
        return {one for places in shown if len(places) > 1 for one in places}

    def put(self, spell: Spell) -> None:
        """Show a GPU from now on, in the first free slot: at 13 locations stays of two overlap."""
        shown = self.lists[spell.location]
        shown[spell.serial] = next(slot for slot in range(len(shown) + 1) if slot not in shown.values())
        self.shown_by[spell.serial].add(spell.location)

    def take(self, spell: Spell) -> None:
        """Show it no more."""
        self.lists[spell.location].pop(spell.serial, None)
        self.shown_by[spell.serial].discard(spell.location)

    def report(self, location: str, at: datetime, failures: Sequence[ReportedFailure] = (), *, boots: bool) -> Report:
        """Say what a node shows, and what it saw."""
        self.boots[location] += boots
        self.sent[location] += 1
        id_ = f"{location}/{self.sent[location]}"
        shown = sorted(self.lists[location].items(), key=lambda pair: pair[1])
        return Report(
            node=location,
            report_id=id_,
            boot_id=f"{location}/boot-{self.boots[location]}",
            provider_id=location,
            profile=PROFILE,
            sent_at=at,
            covers=frozenset({Kind.GPU}),
            entries=tuple(_entry(serial, slot) for serial, slot in shown),
            failures=tuple(failures),
            body_digest=id_,
        )


def _entry(serial: str, slot: int) -> DeviceEntry:
    return DeviceEntry("gpu", "nvidia", slot=f"0000:{2 + slot:02x}:00.0", serial=serial, model="Tesla K20X")


# --- what is said ---------------------------------------------------------------------------------------------------


def moments(lives: Lives) -> Iterator[Moment]:
    """Give everything that is told, in the order of time."""
    failed: defaultdict[datetime, list[Fault]] = defaultdict(list)
    gone: defaultdict[datetime, list[Spell]] = defaultdict(list)
    come: defaultdict[datetime, list[Spell]] = defaultdict(list)
    for fault in lives.faults:
        failed[fault.at].append(fault)
    for spell in lives.spells:
        come[spell.since].append(spell)
        if spell.until < lives.end:
            gone[spell.until].append(spell)
    floor = Floor()
    for at in sorted({*failed, *gone, *come}):
        speakers = {one.location for one in failed[at]} | {one.location for one in (*gone[at], *come[at])}
        disputants = floor.disputants(speakers)
        told = list(_messages(floor, at, failed[at], gone[at], come[at]))
        disputants |= floor.disputants(speakers)
        again = [floor.report(location, at, boots=False) for location in sorted(disputants)]
        yield Moment(at, [*told, *again], is_disputed=bool(again))


def _messages(
    floor: Floor, at: datetime, faults: Sequence[Fault], gone: Sequence[Spell], come: Sequence[Spell]
) -> Iterator[Message]:
    """Nodes tell of what they still show, then what has changed, then of what they have only just begun to show."""
    late = [one for one in faults if not floor.shows(one)]
    yield from _in_place(floor, at, faults)
    yield from _changes(floor, at, gone, come)
    yield from _in_place(floor, at, late)
    waiting, floor.waiting = floor.waiting, []
    yield from _elsewhere(floor, at, [*waiting, *(one for one in late if not floor.shows(one))])


def _in_place(floor: Floor, at: datetime, faults: Iterable[Fault]) -> Iterator[Message]:
    """Nodes tell of the failures of what they show."""
    seen: dict[str, list[ReportedFailure]] = defaultdict(list)
    for one in faults:
        if floor.shows(one):
            seen[one.location].append(_told(one))
    for location, failures in seen.items():
        yield floor.report(location, at, failures, boots=True)


def _elsewhere(floor: Floor, at: datetime, faults: Iterable[Fault]) -> Iterator[Message]:
    """An operator tells of the others, once the service has heard of the GPU and of the node."""
    for one in faults:
        if one.serial in floor.shown_by and floor.sent[one.location]:
            yield _told(one)
            yield floor.report(one.location, at, boots=True)
        else:
            floor.waiting.append(one)


def _told(fault: Fault) -> ReportedFailure:
    id_ = f"{fault.serial}/{fault.code}/{fault.location}/{fault.at:%Y%m%dT%H%M%S}"
    return ReportedFailure(id_, fault.code, fault.serial, fault.location, occurred_at=fault.at, count=fault.count)


def _changes(floor: Floor, at: datetime, gone: Sequence[Spell], come: Sequence[Spell]) -> Iterator[Message]:
    for spell in gone:
        floor.take(spell)
    for spell in come:
        floor.put(spell)
    for location in dict.fromkeys(one.location for one in (*gone, *come)):
        yield floor.report(location, at, boots=True)


# --- how it is told -------------------------------------------------------------------------------------------------


def replay(db: Database, told: Sequence[Moment], tick: Callable[[Moment], object]) -> None:
    """Tell the service everything that it has not been told yet. `tick` is called after each moment.

    Raises RuntimeError when it refuses something.
    """
    begun_at = _newest(db)
    if begun_at is None:
        body = {"gpu": {"count": 1, "models": ["Tesla K20X"]}}
        set_profile(db, PROFILE, body, actor=IMPORTER, now=told[0].at)
        beat(db, told[0].at, POLICY)
    for moment in told:
        if begun_at is None or moment.at >= begun_at:
            _tell(db, moment)
        tick(moment)


def _newest(db: Database) -> datetime | None:
    """When the newest event of the history happened: earlier moments are written."""
    newest = list_events(db, {}, PageRequest(1)).items
    return parse_rfc3339(newest[0]["at"]) if newest else None


def _tell(db: Database, moment: Moment) -> None:
    if moment.is_disputed:
        beat(db, moment.at, POLICY)
    for first in range(0, len(moment.messages), TOGETHER):
        with db.write(moment.at):
            for message in moment.messages[first : first + TOGETHER]:
                _send(db, message, moment.at)
    failed = moment.failed
    if failed:
        with db.write(moment.at):
            for serial in failed:
                _consider(db, serial, moment.at)


def _send(db: Database, message: Message, now: datetime) -> None:
    if isinstance(message, Report):
        node = Actor(ActorKind.NODE, message.node)
        accept_report(db, message, actor=node, policy=POLICY, now=now)
        return
    items = record_failures(db, [message], actor=IMPORTER, node_scope=None, policy=POLICY, now=now)
    if items[0]["outcome"] == "refused":
        raise RuntimeError(f"{message.failure_id}: {items[0]['message']}")


def _consider(db: Database, serial: str, now: datetime) -> None:
    """Hold a board that has failed by the policy whose episode it is, judged by what the service remembers."""
    known = list_failures(db, {"device": serial}, PageRequest(1000)).items
    number = len(begins(at for one in known for at in times_of(one)))
    if number not in HOLDERS:
        return
    command = OpenQuarantines(targets=({"device": serial},), reason=f"episode {number} of failures")
    item = open_quarantines(db, command, actor=HOLDERS[number], now=now)[0]
    if item["outcome"] == "refused":
        raise RuntimeError(f"{serial}: {item['message']}")


def times_of(failure: Mapping[str, Any]) -> list[datetime]:
    """When a failure was seen, as far as it is shown: at first, and last. What one boot shows again is one failure."""
    return sorted({parse_rfc3339(failure["occurred_at"]), parse_rfc3339(failure["last_at"])})
