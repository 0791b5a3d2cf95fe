# SPDX-License-Identifier: Apache-2.0
"""What may nodes say? Whole lists and odd ones, checks that come late or not at all, retries, and words of the past."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import rule

from registry.domain.reports import CheckResult, CheckStatus
from tests.fleet import passing
from tests.properties.hardware import CARDS, EFA_SLOTS, GPU_SLOTS, SINGLES, WAYS, show
from tests.properties.machine import REPORTED, Watched, nodes

oddly = st.sampled_from([False] * 4 + [True])
ways = st.lists(st.sampled_from(["whole"] * 12 + list(WAYS)), min_size=5, max_size=5)
statuses = st.sampled_from(["pass"] * 6 + ["warn", "not_applicable", "fail", "unknown", "skipped", "absent"])


class Reporting(Watched):
    """The acts of nodes."""

    @rule(name=nodes, times=st.integers(1, 3))
    def report_clean(self, name: str, times: int) -> None:
        """What a healthy agent does: everything, every half minute."""
        for _ in range(times):
            self.fleet.clock.advance(31)
            self.send(self.compose(name, self.whole(name), checks=passing(*REPORTED, "dcgm.diag")))

    @rule(
        name=nodes,
        ways=ways,
        covers=st.sampled_from(["gpu+efa", "gpu+efa", "gpu", "efa", "unsaid", "no list"]),
        partial=oddly,
        ghost=st.none() | st.sampled_from([*SINGLES, None, None]),
        is_same_run=oddly,
        seq=st.sampled_from(["none", "none", "next", "stale"]),
        times=st.sampled_from([(0, 0, 0), (0, 0, 0), (20, 10, 0), (60, 2, 1), (0, -9, 0), (2000, 1000, 0)]),
    )
    def report_lists(
        self,
        name: str,
        ways: list[str],
        covers: str,
        partial: bool,
        ghost: str | None,
        is_same_run: bool,
        seq: str,
        times: tuple[int, int, int],
    ) -> None:
        """Lists in part, with lost names, of cards that are elsewhere, in parts of a run, out of order, late."""
        self.tick()
        shown = [show(card, slot, way) for (card, slot), way in zip(self.world.on(name), ways, strict=False)]
        if ghost and self.world.where.get(ghost, ("",))[0] != name:
            slots_of = GPU_SLOTS if CARDS[ghost].kind == "gpu" else EFA_SLOTS
            shown.append(show(ghost, slots_of[-1], ways[-1]))
        kinds = {"gpu", "efa"} if covers in {"unsaid", "no list"} else set(covers.split("+"))
        entries = [one for one in shown if one and one.kind in kinds]
        slots_shown = [one.slot for one in entries]
        entries = [one for at, one in enumerate(entries) if one.slot not in slots_shown[:at]]
        told = self.told[name]
        changes: dict[str, object] = {"covers": None if covers in {"unsaid", "no list"} else frozenset(kinds)}
        if partial and covers != "no list":
            changes["partial"] = frozenset({"gpu"} & kinds)
        if is_same_run and told.run_id:
            changes["run_id"] = told.last.run_id or told.last.report_id if told.last else told.run_id
        if seq != "none":
            told.seq += seq == "next"
            changes["seq"] = told.seq
        started, finished, sent = (self.now - timedelta(seconds=one) for one in times)
        if any(times):
            changes |= {"started_at": started, "finished_at": finished, "sent_at": sent}
        self.send(self.compose(name, None if covers == "no list" else entries, **changes))

    @rule(name=nodes, found=st.lists(statuses, min_size=6, max_size=6), is_same_run=oddly, with_list=st.booleans())
    def report_checks(self, name: str, found: list[str], is_same_run: bool, with_list: bool) -> None:
        """Checks that fail, cannot look, were left out, or come later."""
        self.tick()
        names = (*REPORTED, "gpu.thermal", "dcgm.diag")
        checks = tuple(
            CheckResult(check, CheckStatus(status))
            for check, status in zip(names, found, strict=True)
            if status != "absent"
        )
        changes: dict[str, object] = {"checks": checks}
        last = self.told[name].last
        if is_same_run and last:
            changes["run_id"] = last.run_id or last.report_id
        if not with_list:
            changes["covers"] = None
        self.send(self.compose(name, self.whole(name) if with_list else None, **changes))

    @rule(name=nodes)
    def send_again(self, name: str) -> None:
        """A retry: the same report under the same id changes nothing."""
        last = self.told[name].last
        if last is None or self.told[name].life != int(last.provider_id.partition("-")[2]):
            return
        self.tick()
        self.audit()
        before = len(self.history)
        self.send(last)
        self.audit()
        assert len(self.history) == before

    @rule(name=nodes, what=st.sampled_from(["boot", "boot", "life", "old boot", "old life"]))
    def restart(self, name: str, what: str) -> None:
        """A new boot or machine; or a message from one that is over."""
        self.tick()
        told = self.told[name]
        if what == "boot":
            told.boot, told.seq = told.boot + 1, 0
        elif what == "life":
            told.life, told.seq = told.life + 1, 0
        elif what == "old boot":
            self.send(self.compose(name, self.whole(name), boot_id=f"boot-{max(1, told.boot - 1)}"))
        elif told.life > 1:
            self.send(self.compose(name, self.whole(name), provider_id=f"{name}-{told.life - 1}"))

    @rule(name=nodes, profile=st.sampled_from(["small", "small", "slow", "plain", "nobody"]))
    def change_profile(self, name: str, profile: str) -> None:
        self.told[name].profile = profile
