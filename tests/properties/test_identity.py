# SPDX-License-Identifier: Apache-2.0
"""Do records stay true to hardware, whatever lists come, in whatever order?

Two worlds. In the true one there is hardware, and lists show it as tools do: whole, in part, lost, or not at all; the
records must follow it. In the wild one entries are made of a handful of words, so that they contradict each other all
the time; there only the promises that need no truth are checked.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from registry.domain.errors import SlotRepeated
from registry.domain.identity import ConflictRule, Match, MatchedBy, Outcome, check_slots, match
from registry.domain.policy import Policy
from registry.domain.reports import DeviceEntry
from tests.keeper import Keeper, gpu

HONEST_DOUBTS = {ConflictRule.TWO_NODES, ConflictRule.SERIAL_ON_TWO_NODES}
"""What true lists can bring about while another node has not yet told what it lost."""

MODELS = {1: "NVIDIA H100 80GB HBM3", 2: "NVIDIA GB200", 3: "Odd Board 3", 4: "Tesla M10"}


@dataclass
class Card:
    """One real GPU. `was_whole`: some list has shown all it has."""

    board: int
    number: int
    model: str
    serial: str | None
    was_whole: bool = False

    @property
    def uuid(self) -> str:
        return f"GPU-{self.board + 1:08x}-0000-0000-0000-{self.number + 1:012x}"


@dataclass
class World:
    """Real boards in real nodes. A node gets a new instance when a board of several is put in or taken out."""

    random: Random
    boards: list[list[Card]]
    nodes: dict[str, list[int]] = field(default_factory=lambda: {"a": [], "b": [], "c": []})
    lives: Counter[str] = field(default_factory=Counter)
    shelf: list[int] = field(default_factory=list)

    def move(self) -> None:
        """Carry a board from the shelf or a node to a node or the shelf."""
        board = self.random.randrange(len(self.boards))
        touched = [name for name, held in self.nodes.items() if board in held]
        for name in touched:
            self.nodes[name].remove(board)
        if self.random.random() < 0.9:
            target = self.random.choice(sorted(self.nodes))
            self.nodes[target].append(board)
            touched.append(target)
        for name in touched:
            self.lives[name] += 1

    def swap(self) -> None:
        """Replace a single-GPU board by another while the instance lives: slot stays, serial and UUID change."""
        name = self.random.choice(sorted(self.nodes))
        placed = {board for held in self.nodes.values() for board in held}
        free = [at for at, cards in enumerate(self.boards) if at not in placed and len(cards) == 1]
        singles = [at for at, board in enumerate(self.nodes[name]) if len(self.boards[board]) == 1]
        if free and singles:
            self.nodes[name][self.random.choice(singles)] = self.random.choice(free)

    def instance(self, name: str) -> str:
        return f"{name}/{self.lives[name]}"

    def show(self, name: str, *, is_first: bool) -> list[tuple[Card, DeviceEntry]]:
        """Make a list of a node, in any order. Boards of several are shown whole before they are shown in part."""
        seen = []
        for position, board in enumerate(self.nodes[name]):
            cards = self.boards[board]
            all_seen = all(card.was_whole for card in cards)
            for card in cards:
                ways = ["whole"] if not all_seen and len(cards) > 1 else ["whole", "whole", "serial"]
                if card.was_whole:
                    ways += ["uuid", "gone"]
                if card.was_whole and all_seen and not is_first:
                    ways.append("lost")
                entry = self._print(card, f"0000:{position + 1:02x}:{card.number:02x}.0", self.random.choice(ways))
                if entry is not None:
                    seen.append((card, entry))
        self.random.shuffle(seen)
        return seen

    def _print(self, card: Card, slot: str, way: str) -> DeviceEntry | None:
        whole = DeviceEntry("gpu", "nvidia", slot=slot, serial=card.serial, uuid=card.uuid, model=card.model)
        if way == "gone":
            return None
        if way == "whole":
            card.was_whole = True
            return replace(whole, module_id=str(card.number))
        if way == "serial":
            return replace(whole, uuid=self.random.choice([None, "N/A", "GPU-00000000-0000-0000-0000-000000000000"]))
        if way == "uuid":
            return replace(whole, serial=self.random.choice([None, "[N/A]", "0000000000000"]))
        return replace(whole, serial="ERR!", uuid="[GPU is lost]", model=None)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    sizes = draw(st.lists(st.sampled_from([1, 1, 1, 2, 3, 4]), min_size=1, max_size=6))
    boards = []
    for at, size in enumerate(sizes):
        serial = draw(st.sampled_from([f"16500000{at:05d}"] * 3 + ["N/A", "0000000000000", None]))
        boards.append([Card(at, number, MODELS[size], serial) for number in range(size)])
    return World(Random(draw(st.integers(0, 2**32))), boards)


@dataclass
class Truth:
    """Which record stands for which real card and board: each for one, and one for each."""

    unit_of: dict[str, str] = field(default_factory=dict)
    card_of: dict[str, str] = field(default_factory=dict)
    board_of: dict[int, str] = field(default_factory=dict)
    real_board_of: dict[str, int] = field(default_factory=dict)

    def check(self, card: Card, unit_id: str, board_id: str) -> None:
        assert self.unit_of.setdefault(card.uuid, unit_id) == unit_id, "one card, two records"
        assert self.card_of.setdefault(unit_id, card.uuid) == card.uuid, "two cards, one record"
        assert self.real_board_of.setdefault(board_id, card.board) == card.board, "two boards, one record"
        if card.serial and card.serial.startswith("165"):
            assert self.board_of.setdefault(card.board, board_id) == board_id, "one board, two records"


@settings(max_examples=150)
@given(world=worlds(), steps=st.lists(st.sampled_from(["move", "move", "swap", "list", "list", "list"]), max_size=25))
def test_records_follow_the_hardware(world: World, steps: list[str]) -> None:
    keeper, truth = Keeper(), Truth()
    listed: set[str] = set()
    for _ in world.boards:
        world.move()

    for step in steps:
        if step == "move":
            world.move()
        elif step == "swap":
            world.swap()
        else:
            name = world.random.choice(sorted(world.nodes))
            _let_others_be_silent(keeper, world)
            _check_list(keeper, truth, world, name, is_first=world.instance(name) not in listed)
            listed.add(world.instance(name))


def _let_others_be_silent(keeper: Keeper, world: World) -> None:
    """Old instances are not live; and with one random bit, no other node is: then nothing is contested for ever."""
    current = {world.instance(name) for name in world.nodes}
    is_silent = world.random.random() < 0.5
    for instance in {unit.place.node for unit in keeper.units.values() if unit.place}:
        if is_silent or instance not in current:
            keeper.lose(instance)


def _check_list(keeper: Keeper, truth: Truth, world: World, name: str, *, is_first: bool) -> None:
    shown = world.show(name, is_first=is_first)
    entries = [entry for _, entry in shown]
    check_slots(entries)

    before = set(keeper.units)
    matches = keeper.list(world.instance(name), *entries)

    made = [unit_id for unit_id in keeper.units if unit_id not in before]
    for (card, _), found in zip(shown, matches, strict=True):
        if found.outcome is Outcome.NEW:
            unit_id = made.pop(0)
        elif found.outcome is Outcome.KNOWN and found.unit_id and found.matched_by is not MatchedBy.SLOT:
            unit_id = found.unit_id
        else:
            continue
        truth.check(card, unit_id, keeper.units[unit_id].board_id)
    assert made == []
    _check_promises(matches)
    assert {found.rule for found in matches if found.rule} <= HONEST_DOUBTS


WORDS = st.sampled_from
ENTRIES = st.builds(
    DeviceEntry,
    kind=WORDS(["gpu", "gpu", "gpu", "efa"]),
    vendor=WORDS(["nvidia", "nvidia", "nvidia", "amd"]),
    slot=WORDS([None, *(f"0000:0{at}:00.0" for at in range(1, 6))]),
    serial=WORDS([None, "N/A", "1", "2", "3", "0000"]),
    uuid=WORDS([None, "N/A", *(f"GPU-{digit * 8}-0000-0000-0000-000000000000" for digit in "12345")]),
    unique_id=WORDS([None, None, None, "0x1", "0x2"]),
    module_id=WORDS([None, "0", "1"]),
    model=WORDS([None, "Tesla M60", "NVIDIA H100 80GB HBM3"]),
    mac=WORDS([None, None, "02:00:00:00:00:01", "02:00:00:00:00:02"]),
    gid=WORDS([None, None, "fe80::ff:fe00:1", "fe80::1"]),
)
LISTS = st.lists(ENTRIES, max_size=10)
STORIES = st.lists(st.tuples(WORDS(["a", "b"]), LISTS), max_size=5)


def _tell(story: list[tuple[str, list[DeviceEntry]]]) -> Keeper:
    keeper = Keeper()
    for instance, entries in story:
        if _is_accepted(entries):
            keeper.list(instance, *entries)
    return keeper


def _is_accepted(entries: list[DeviceEntry]) -> bool:
    try:
        check_slots(entries)
    except SlotRepeated:
        return False
    return True


def _check_promises(matches: tuple[Match, ...]) -> None:
    taken = [found.unit_id for found in matches if found.unit_id is not None]
    assert len(taken) == len(set(taken)), "two entries, one unit"
    for at, found in enumerate(matches):
        assert found.index == at
        assert found.reason
        assert (found.unit_id is not None) == (found.outcome is Outcome.KNOWN)
        assert (found.matched_by is not MatchedBy.NONE) == (found.outcome is Outcome.KNOWN)
        assert (found.rule is not None) == (found.outcome is Outcome.CONFLICT)
        assert found.outcome is Outcome.NEW or (found.board_id, found.board_key) == (None, None)


@settings(max_examples=200)
@given(story=STORIES, entries=LISTS, order=st.randoms(use_true_random=False))
def test_the_order_of_a_list_means_nothing(
    story: list[tuple[str, list[DeviceEntry]]], entries: list[DeviceEntry], order: Random
) -> None:
    known = _tell(story).known("a")
    places = list(range(len(entries)))
    order.shuffle(places)

    straight = match(entries, known, Policy())
    mixed = match([entries[at] for at in places], known, Policy())

    _check_promises(straight)
    for at, found in zip(places, mixed, strict=True):
        assert _gist(found) == _gist(straight[at])


def _uuid(digit: int) -> str:
    return f"GPU-{str(digit) * 8}-0000-0000-0000-000000000000"


TWICE = [gpu(slot="0000:01:00.0", uuid=_uuid(1)), gpu(slot="0000:01:00.0", uuid=_uuid(2))]
"""Two units in one slot, told apart by their UUIDs: both are kept there."""


@settings(max_examples=200)
@example(story=[("a", TWICE)], entries=[gpu(slot="0000:02:00.0", uuid=_uuid(2)), gpu(slot="0000:01:00.0")])
@example(story=[("a", TWICE)], entries=[gpu(slot="0000:02:00.0", uuid=_uuid(1)), gpu(slot="0000:01:00.0")])
@example(story=[("a", TWICE)], entries=[gpu(slot="0000:01:00.0")])
@given(story=STORIES, entries=LISTS)
def test_a_list_sent_again_finds_the_same_units(
    story: list[tuple[str, list[DeviceEntry]]], entries: list[DeviceEntry]
) -> None:
    assume(_is_accepted(entries))
    keeper = _tell(story)
    before = len(keeper.units)

    first = keeper.list("a", *entries)
    made = list(keeper.units)[before:]
    second = keeper.list("a", *entries)

    for found, again in zip(first, second, strict=True):
        if found.outcome is Outcome.NEW:
            assert again.unit_id == made.pop(0)
        elif found.outcome is Outcome.KNOWN:
            assert again.unit_id == found.unit_id
        else:
            assert again.outcome is found.outcome
    assert len(keeper.units) == before + len(first) - len([1 for found in first if found.outcome is not Outcome.NEW])


def _gist(found: Match) -> tuple[object, ...]:
    return (
        *(found.entry, found.outcome, found.matched_by, found.unit_id, found.board_id, found.board_key),
        *(found.rule, found.reason, frozenset(found.involved)),
    )
