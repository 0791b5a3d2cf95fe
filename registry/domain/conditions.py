# SPDX-License-Identifier: Apache-2.0
"""When is what a check finds a problem, when is it a failure, and when is it over?

A check that fails opens a problem at once. What has been bad for its tolerance is a failure, and stays one until all
was well for `clear_seconds`; what comes back sooner goes on where it was. Only the word of the check moves a timer:
well, bad, or that nobody could look. Reasons and messages may change as they like.

Tolerance is used up by time in which the check was known to be bad, and by nothing else: not while it was well, not
while nobody could look or the node was silent, not while we were away or the node was in maintenance. So what nobody
can look at never becomes a failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from registry.domain.condition_shown import FLAPS, Condition, ConditionStatus
from registry.domain.condition_words import Said, Word
from registry.domain.events import EventType
from registry.domain.policy import Policy
from registry.domain.staleness import Outage, elapsed, moment_after
from registry.domain.tolerances import FLAPPING


@dataclass(frozen=True, slots=True)
class Record:
    """What is remembered of one check on one device of an instance, or on the instance where no device is named.

    A device is told by its unit (`device_id`), or by the text that named it where that is no unit known here (`named`).
    `since` is when the trouble began, None when there is none; `spent` is the tolerance that was used up before
    `word_since`. `changes` are the newest times at which well became bad or bad well, `was_bad` which of the two was
    the last. `told` and `told_flapping` are what the history last heard.
    """

    name: str
    word: Word
    word_since: datetime
    device_id: str | None = None
    named: str | None = None
    since: datetime | None = None
    spent: timedelta = timedelta(0)
    failed_at: datetime | None = None
    changes: tuple[datetime, ...] = ()
    was_bad: bool = False
    flaps_since: datetime | None = None
    said: Said = field(default=Said("", ""))
    told: ConditionStatus | None = None
    told_flapping: ConditionStatus | None = None

    @property
    def key(self) -> tuple[str, str | None, str | None]:
        """What tells it from the others of its instance."""
        return self.name, self.device_id, self.named


@dataclass(frozen=True, slots=True)
class News:
    """What the history has to hear of a condition: it opened, failed or cleared at a time."""

    type: EventType
    condition: Condition
    at: datetime


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges records under a policy. `left_out` are the times in which no timer runs."""

    policy: Policy
    left_out: tuple[Outage, ...] = ()

    def hear(self, record: Record, word: Word, said: Said, at: datetime) -> tuple[Record, tuple[News, ...]]:
        """Take a word in, and give what the history has to hear: first what has come about by itself meanwhile."""
        record, before = self.catch_up(record, at)
        if word is record.word:
            return record, before
        record, after = self.catch_up(self._change(record, word, said, at), at)
        return record, (*before, *after)

    def catch_up(self, record: Record, now: datetime) -> tuple[Record, tuple[News, ...]]:
        """Bring a record up to `now` without a new word: what has lasted its time is a failure, or is over."""
        news = (*self._news(record, now), *self._news_of_flapping(record, now))
        failed_at = self._failure_at(record)
        if record.failed_at is None and failed_at is not None and failed_at <= now:
            record = replace(record, failed_at=failed_at)
        told = self._told(record, now)
        flapping = self.flapping(record, now)
        record = replace(record, told=told, told_flapping=flapping.status if flapping else None)
        if self._is_over(record, now):
            record = replace(record, since=None, spent=timedelta(0), failed_at=None)
        return self._without_old_changes(record, now), news

    def standing(self, record: Record, now: datetime) -> tuple[Condition, ...]:
        """Give the conditions that stand now: the check's, and its flapping. Those that are ok are left out."""
        found = (self.condition(record, now), self.flapping(record, now))
        return tuple(one for one in found if one is not None and one.status is not ConditionStatus.OK)

    def condition(self, record: Record, now: datetime) -> Condition:
        """Give the condition of a check."""
        failure_at, since = self._failure_at(record), record.since
        is_failed = failure_at is not None and failure_at <= now and not self._is_over(record, now)
        status = ConditionStatus.FAILURE if is_failed else _STATUS[record.word]
        is_trouble = status in {ConditionStatus.FAILURE, ConditionStatus.PROBLEM}
        limits = self.policy.limits_of(record.name)
        is_unknown = status is ConditionStatus.UNKNOWN
        return Condition(
            name=record.name,
            status=status,
            since=since if is_trouble and since is not None else record.word_since,
            reason=record.said.reason,
            message=record.said.message,
            tolerance_seconds=limits.unknown_seconds if is_unknown else limits.tolerance_seconds,
            failure_at=failure_at if is_trouble else None,
            clears_at=self._clears_at(record) if is_failed else None,
        )

    def flapping(self, record: Record, now: datetime) -> Condition | None:
        """Give the condition of a check that comes and goes; None of one that holds still.

        It is a failure when it still came and went after its tolerance: one that holds still by then only waits for the
        end of the window.
        """
        since, end = record.flaps_since, self._flaps_until(record)
        if since is None or end is None or end <= now:
            return None
        name = f"{record.name}{FLAPPING}"
        tolerance = self.policy.limits_of(name).tolerance_seconds
        failure_at = None if tolerance is None else moment_after(since, timedelta(seconds=tolerance), self.left_out)
        is_failed = failure_at is not None and record.changes[-1] >= failure_at
        window = self.policy.condition_flap_window_seconds // 60
        count = len(record.changes)
        return Condition(
            name=name,
            status=ConditionStatus.FAILURE if is_failed else ConditionStatus.PROBLEM,
            since=since,
            reason=FLAPS,
            message=f"{record.name} changed {count} times between well and bad within {window} minutes",
            tolerance_seconds=tolerance,
            failure_at=failure_at if is_failed else None,
            clears_at=end,
        )

    def due_at(self, record: Record) -> datetime | None:
        """Give the next moment at which something comes about by itself; None when only a new word changes anything."""
        times: list[datetime | None] = []
        if record.word is Word.BAD and record.told is not ConditionStatus.FAILURE:
            times.append(self._failure_at(record))
        if record.word is Word.WELL and (record.since is not None or record.told is not None):
            times.append(self._clears_at(record))
        if record.word is Word.UNKNOWN and record.since is None and record.told is None:
            times.append(self._overdue_at(record))
        if record.told_flapping is not None:
            times.append(self._flaps_until(record))
        elif record.changes and record.since is None:
            times.append(record.changes[-1] + self._window)
        return min((one for one in times if one is not None), default=None)

    @staticmethod
    def is_forgotten(record: Record) -> bool:
        """Tell whether nothing is worth remembering of a check: it is well, and was long enough."""
        is_well = record.word is Word.WELL and record.since is None and record.told is None
        return is_well and not record.changes and record.told_flapping is None

    # --- the parts ----------------------------------------------------------------------------------------------------

    @property
    def _window(self) -> timedelta:
        return timedelta(seconds=self.policy.condition_flap_window_seconds)

    def _change(self, record: Record, word: Word, said: Said, at: datetime) -> Record:
        """Put a new word in place of another one."""
        spent = record.spent
        if record.word is Word.BAD:
            spent += elapsed(record.word_since, at, self.left_out)
        is_bad = record.was_bad if word is Word.UNKNOWN else word is Word.BAD
        since = at if word is Word.BAD and record.since is None else record.since
        heard = replace(record, word=word, word_since=at, spent=spent, since=since, was_bad=is_bad)
        if word is Word.BAD or (word is Word.UNKNOWN and record.failed_at is None):
            heard = replace(heard, said=said)  # of a failure that nobody can look at, what it was stays
        is_change = is_bad is not record.was_bad and not any(one.start <= at < one.end for one in self.left_out)
        return self._with_change(heard, at) if is_change else heard

    def _with_change(self, record: Record, at: datetime) -> Record:
        """Count one more change between well and bad, and see whether that is flapping."""
        most = self.policy.condition_flap_changes
        was_flapping = record.flaps_since is not None and (self._flaps_until(record) or at) > at
        changes = (*record.changes, at)[-most:]
        is_flapping = len(changes) == most and at - changes[0] <= self._window
        since = (record.flaps_since if was_flapping else at) if is_flapping else None
        return replace(record, changes=changes, flaps_since=since)

    def _without_old_changes(self, record: Record, now: datetime) -> Record:
        if not record.changes or record.changes[-1] + self._window > now:
            return record
        return replace(record, changes=(), flaps_since=None)

    def _failure_at(self, record: Record) -> datetime | None:
        """When it became a failure, or will if it stays bad; None when it is not on the way to one."""
        if record.failed_at is not None:
            return record.failed_at
        tolerance = self.policy.limits_of(record.name).tolerance_seconds
        if record.word is not Word.BAD or tolerance is None:
            return None
        left = max(timedelta(seconds=tolerance) - record.spent, timedelta(0))
        return moment_after(record.word_since, left, self.left_out)

    def _clears_at(self, record: Record) -> datetime | None:
        """When all was well for long enough; for trouble that nobody saw, which was unknown only, at once."""
        if record.word is not Word.WELL:
            return None
        seconds = self.policy.limits_of(record.name).clear_seconds if record.since is not None else 0
        return moment_after(record.word_since, timedelta(seconds=seconds), self.left_out)

    def _overdue_at(self, record: Record) -> datetime:
        seconds = self.policy.limits_of(record.name).unknown_seconds
        return moment_after(record.word_since, timedelta(seconds=seconds), self.left_out)

    def _flaps_until(self, record: Record) -> datetime | None:
        return record.changes[0] + self._window if record.flaps_since is not None and record.changes else None

    def _is_over(self, record: Record, now: datetime) -> bool:
        clears_at = self._clears_at(record)
        return clears_at is not None and clears_at <= now

    def _told(self, record: Record, now: datetime) -> ConditionStatus | None:
        """What the history has heard by now."""
        status = self.condition(record, now).status
        if status in {ConditionStatus.FAILURE, ConditionStatus.PROBLEM}:
            return status
        if self._is_over(record, now):
            return None
        if record.told is None and record.word is Word.UNKNOWN and record.since is None:
            return ConditionStatus.UNKNOWN if self._overdue_at(record) <= now else None
        return record.told

    def _news(self, record: Record, now: datetime) -> Iterator[News]:
        before, after = record.told, self._told(record, now)
        found = self.condition(record, now)
        if after is before:
            return
        if after is None:
            over = replace(found, status=ConditionStatus.OK, failure_at=None, clears_at=None)
            yield News(EventType.CONDITION_CLEARED, over, self._clears_at(record) or now)
            return
        if before is not ConditionStatus.PROBLEM and after is not ConditionStatus.UNKNOWN:
            opened = replace(found, status=ConditionStatus.PROBLEM)
            yield News(EventType.CONDITION_OPENED, opened, found.since)
        if after is ConditionStatus.UNKNOWN:
            yield News(EventType.CONDITION_OPENED, found, self._overdue_at(record))
        if after is ConditionStatus.FAILURE:
            yield News(EventType.CONDITION_FAILED, found, found.failure_at or now)

    def _news_of_flapping(self, record: Record, now: datetime) -> Iterator[News]:
        found, before = self.flapping(record, now), record.told_flapping
        if found is None:
            if before is not None:
                name = f"{record.name}{FLAPPING}"
                over = Condition(name, ConditionStatus.OK, now, FLAPS, f"{record.name} holds still again")
                yield News(EventType.CONDITION_CLEARED, over, self._flaps_until(record) or now)
            return
        if before is None:
            opened = replace(found, status=ConditionStatus.PROBLEM, failure_at=None)
            yield News(EventType.CONDITION_OPENED, opened, found.since)
        if found.status is ConditionStatus.FAILURE and before is not ConditionStatus.FAILURE:
            yield News(EventType.CONDITION_FAILED, found, found.failure_at or now)


def ended(record: Record, now: datetime) -> tuple[News, ...]:
    """Give what the history has to hear when a condition ends because what it was of is gone."""
    open_ = ((record.name, record.told), (f"{record.name}{FLAPPING}", record.told_flapping))
    said = record.said
    return tuple(
        News(EventType.CONDITION_CLEARED, Condition(name, ConditionStatus.OK, now, said.reason, said.message), now)
        for name, told in open_
        if told is not None
    )


_STATUS = {
    Word.WELL: ConditionStatus.OK,
    Word.BAD: ConditionStatus.PROBLEM,
    Word.UNKNOWN: ConditionStatus.UNKNOWN,
}
