# SPDX-License-Identifier: Apache-2.0
"""Is each entry of a list who the rules say it is? One group of tests per row of the table, then its bullets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from registry.domain.errors import SlotRepeated
from registry.domain.identity import (
    MULTI_UNIT_MODELS,
    ConflictRule,
    Fingerprint,
    Match,
    MatchedBy,
    Outcome,
    board_carries_several,
    check_slots,
    conflict_key,
    match,
    normalise_slot,
)
from registry.domain.policy import Policy
from registry.domain.reports import DeviceEntry
from tests.keeper import Keeper, efa, gpu

ZEROS = "0000000000000"
S = "1699999999999"
U1, U2, U3 = (f"GPU-{digit * 8}-0000-0000-0000-000000000000" for digit in "abc")
A, B, C = "0000:0a:00.0", "0000:0b:00.0", "0000:0c:00.0"


@pytest.fixture
def keeper() -> Keeper:
    return Keeper()


def outcomes(matches: Sequence[Match]) -> list[Outcome]:
    return [found.outcome for found in matches]


def rules(matches: Sequence[Match]) -> list[ConflictRule | None]:
    return [found.rule for found in matches]


def units(matches: Sequence[Match]) -> list[str | None]:
    return [found.unit_id for found in matches]


class TestRow0:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (gpu(slot=A), gpu(slot=A)),
            (gpu(slot=A, uuid=U1), gpu(slot=A)),
            (gpu(slot=A, uuid=U1), gpu(slot=A, uuid=U1.upper())),
            (gpu(slot=A, uuid="N/A", serial="1"), gpu(slot=A, uuid="N/A", serial="2")),
            (efa(A), efa(A)),
        ],
    )
    def test_one_slot_twice_without_different_uuids_is_refused(self, one: DeviceEntry, other: DeviceEntry) -> None:
        with pytest.raises(SlotRepeated) as caught:
            check_slots([gpu(9), one, other])

        assert [error.pointer for error in caught.value.errors] == ["/devices/1/slot", "/devices/2/slot"]
        assert A in caught.value.errors[0].detail

    def test_one_slot_twice_with_different_uuids_is_kept(self, keeper: Keeper) -> None:
        entries = gpu(slot=A, uuid=U1), gpu(slot=A, uuid=U2)

        check_slots(entries)

        assert outcomes(keeper.list("a", *entries)) == [Outcome.NEW, Outcome.NEW]

    def test_a_slot_belongs_to_a_kind_and_none_is_no_slot(self) -> None:
        check_slots([gpu(slot=A), efa(A), gpu(), gpu()])


class TestRow0Prime:
    def test_one_uuid_in_two_slots_puts_both_in_conflict_and_makes_no_record(self, keeper: Keeper) -> None:
        matches = keeper.list(
            "a", gpu(slot=A, uuid=U1, serial="N/A"), gpu(slot=B, uuid=U1.lower(), serial="N/A"), gpu(3)
        )

        assert rules(matches) == [ConflictRule.UUID_REPEATED, ConflictRule.UUID_REPEATED, None]
        assert len(keeper.units) == 1
        assert conflict_key(matches[0]) != conflict_key(matches[1])

    def test_the_recorded_unit_is_involved(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1))

        matches = keeper.list("a", gpu(1), gpu(1, slot=B))

        assert rules(matches) == [ConflictRule.UUID_REPEATED] * 2
        assert {found.involved for found in matches} == {("unit-1",)}
        assert units(matches) == [None, None]

    def test_a_unique_id_twice_is_the_same(self, keeper: Keeper) -> None:
        matches = keeper.list(
            "a", gpu(slot=A, unique_id="0x67c6000000000001"), gpu(slot=B, unique_id="67C6000000000001")
        )

        assert rules(matches) == [ConflictRule.UUID_REPEATED] * 2

    def test_a_uuid_of_zeros_in_many_slots_is_nothing(self, keeper: Keeper) -> None:
        zeros = "GPU-00000000-0000-0000-0000-000000000000"

        matches = keeper.list("a", *(gpu(number, uuid=zeros) for number in range(1, 9)))

        assert outcomes(matches) == [Outcome.NEW] * 8


class TestRow1:
    @pytest.mark.parametrize("serial", [gpu(1).serial, None, "N/A", ZEROS, f" {gpu(1).serial} "])
    def test_a_known_uuid_with_equal_or_no_serial_is_that_unit(self, keeper: Keeper, serial: str | None) -> None:
        keeper.list("a", gpu(1))

        (found,) = keeper.list("b", gpu(1, serial=serial))

        assert (found.outcome, found.unit_id, found.matched_by) == (Outcome.KNOWN, "unit-1", MatchedBy.UUID)

    def test_a_serial_not_yet_known_is_added(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1, serial="[N/A]"))

        (found,) = keeper.list("a", gpu(1))
        (again,) = keeper.list("b", gpu(1, uuid=None))

        assert found.unit_id == again.unit_id == "unit-1"

    def test_a_serial_whose_board_has_a_unit_without_uuid_is_a_conflict(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(slot=A, serial=S))
        keeper.list("a", gpu(slot=A, uuid=U1))

        (found,) = keeper.list("a", gpu(slot=A, uuid=U1, serial=S))

        assert found.rule is ConflictRule.BOARD_TAKEN
        assert set(found.involved) == {"unit-1", "unit-2"}

    def test_a_serial_of_another_board_is_a_conflict(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1), gpu(2, serial=None))

        (found,) = keeper.list("b", gpu(2, serial=gpu(1).serial))

        assert found.rule is ConflictRule.BOARD_TAKEN
        assert set(found.involved) == {"unit-1", "unit-2"}

    def test_one_new_serial_on_units_of_two_boards_is_a_conflict(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(slot=A, uuid=U1), gpu(slot=B, uuid=U2))

        both = gpu(slot=A, uuid=U1, serial=S), gpu(slot=B, uuid=U2, serial=S)
        matches = keeper.list("a", *both, gpu(slot=C, uuid=U3, serial=S))

        assert rules(matches) == [ConflictRule.BOARD_TAKEN] * 3
        assert matches[0].involved == ("unit-1", "unit-2")
        assert outcomes(keeper.list("a", *both, gpu(slot=C, serial=S)))[2] is Outcome.UNIDENTIFIED

    def test_a_new_unit_joins_the_board_that_gets_its_serial_in_the_same_list(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(slot=A, uuid=U1))

        matches = keeper.list("a", gpu(slot=B, uuid=U2, serial=S), gpu(slot=A, uuid=U1, serial=S))

        assert outcomes(matches) == [Outcome.NEW, Outcome.KNOWN]
        assert matches[0].board_id == keeper.units["unit-1"].board_id == keeper.units["unit-2"].board_id


class TestRow2:
    def test_a_known_uuid_with_another_serial_is_a_conflict(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1), gpu(2))

        (found,) = keeper.list("a", gpu(1, serial=gpu(2).serial))

        assert found.rule is ConflictRule.SERIAL_DIFFERS
        assert found.involved == ("unit-1", "unit-2")
        assert (found.unit_id, found.matched_by) == (None, MatchedBy.NONE)

    def test_it_does_not_spoil_the_entry_that_the_serial_belongs_to(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1), gpu(2))

        matches = keeper.list("a", gpu(1, serial=gpu(2).serial), gpu(2))

        assert outcomes(matches) == [Outcome.CONFLICT, Outcome.KNOWN]


class TestRow3:
    def test_the_only_unit_without_a_uuid_gets_it(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1, uuid=None))

        (found,) = keeper.list("b", gpu(1))
        (again,) = keeper.list("c", gpu(1, serial=None))

        assert (found.unit_id, found.matched_by) == ("unit-1", MatchedBy.SERIAL)
        assert again.unit_id == "unit-1"

    def test_another_uuid_under_one_serial_is_a_conflict(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1))
        keeper.lose("a")

        (found,) = keeper.list("b", gpu(1, uuid=U1))

        assert found.rule is ConflictRule.BOARD_TAKEN
        assert found.involved == ("unit-1",)
        assert len(keeper.units) == 1

    def test_a_new_unit_beside_all_known_ones_is_of_their_board(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(slot=A, uuid=U1, serial=S))

        matches = keeper.list("a", gpu(slot=B, uuid=U2, serial=S), gpu(slot=A, uuid=U1))

        assert outcomes(matches) == [Outcome.NEW, Outcome.KNOWN]
        assert matches[0].board_id == keeper.units["unit-1"].board_id

    @pytest.mark.parametrize("several", [{"model": "NVIDIA GB200"}, {"readings": {"multigpu_board": "Yes"}}])
    def test_a_new_unit_alone_is_of_the_board_when_the_model_carries_several(
        self, keeper: Keeper, several: dict[str, object]
    ) -> None:
        keeper.list("a", gpu(slot=A, uuid=U1, serial=S))

        (found,) = keeper.list("a", DeviceEntry("gpu", "nvidia", slot=B, uuid=U2, serial=S, **several))  # type: ignore[arg-type]

        assert (found.outcome, found.board_id) == (Outcome.NEW, keeper.units["unit-1"].board_id)

    def test_the_unit_without_a_uuid_is_found_among_several_by_module(self, keeper: Keeper) -> None:
        first = gpu(slot=A, serial=S, model="Tesla M60", module_id="1")
        second = gpu(slot=B, serial=S, model="Tesla M60", module_id="2", uuid=U2)
        keeper.list("a", first)

        alone = keeper.list("a", second)
        both = keeper.list("b", second, gpu(slot=C, serial=S, model="Tesla M60", module_id="1", uuid=U1))

        assert outcomes(alone) == [Outcome.NEW]
        assert units(both) == ["unit-2", "unit-1"]
        assert both[1].matched_by is MatchedBy.MODULE_ID

    def test_or_by_the_slot_it_was_last_in(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(slot=A, serial=S))

        matches = keeper.list("a", gpu(slot=B, serial=S, uuid=U2), gpu(slot=A, serial=S, uuid=U1))

        assert outcomes(matches) == [Outcome.NEW, Outcome.KNOWN]
        assert (matches[1].unit_id, matches[1].matched_by) == ("unit-1", MatchedBy.BOARD_SLOT)

    def test_one_of_several_that_nothing_tells_apart_is_a_conflict(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(slot=A, serial=S))
        keeper.list("a", gpu(slot=A, serial=S), gpu(slot=B, serial=S, uuid=U2))
        keeper.lose("a")

        (found,) = keeper.list("b", gpu(slot=C, serial=S, uuid=U3))

        assert found.rule is ConflictRule.BOARD_TAKEN
        assert set(found.involved) == {"unit-1", "unit-2"}

    def test_a_board_known_by_name_only_takes_its_first_unit(self, keeper: Keeper) -> None:
        keeper.boards[("gpu", "nvidia", S)] = "imported"

        (found,) = keeper.list("a", gpu(slot=A, uuid=U1, serial=S))

        assert (found.outcome, found.board_id) == (Outcome.NEW, "imported")


class TestRow4:
    def test_new_serial_and_uuid_are_a_new_unit_and_board(self, keeper: Keeper) -> None:
        (found,) = keeper.list("a", gpu(1))

        assert (found.outcome, found.board_id, found.unit_id) == (Outcome.NEW, None, None)
        assert found.board_key == ("gpu", "nvidia", gpu(1).serial)

    @pytest.mark.parametrize("serial", ["N/A", "[N/A]", ZEROS, None, "To be filled by O.E.M."])
    def test_without_usable_serials_each_uuid_is_a_board_of_its_own(self, keeper: Keeper, serial: str | None) -> None:
        entries = [gpu(number, serial=serial) for number in range(1, 9)]

        first, again = keeper.list("a", *entries), keeper.list("a", *entries)

        assert outcomes(first) == [Outcome.NEW] * 8
        assert {found.board_key for found in first} == {None}
        assert len({unit.board_id for unit in keeper.units.values()}) == 8
        assert len(set(units(again))) == 8

    def test_zeros_on_two_nodes_join_nothing(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1, serial=ZEROS))

        assert outcomes(keeper.list("b", gpu(2, serial=ZEROS))) == [Outcome.NEW]

    def test_one_serial_of_two_makers_is_two_devices(self, keeper: Keeper) -> None:
        matches = keeper.list("a", gpu(slot=A, serial="12345", vendor="p"), gpu(slot=B, serial="12345", vendor="q"))

        assert outcomes(matches) == [Outcome.NEW, Outcome.NEW]
        assert len({unit.board_id for unit in keeper.units.values()}) == 2


class TestRow5:
    def test_a_serial_alone_is_the_only_unit_of_its_board(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1))

        (found,) = keeper.list("b", gpu(1, uuid="N/A", slot=C))

        assert (found.unit_id, found.matched_by) == ("unit-1", MatchedBy.SERIAL)

    def test_an_unknown_serial_alone_is_a_new_unit(self, keeper: Keeper) -> None:
        first = keeper.list("a", gpu(1, uuid=None))
        again = keeper.list("a", gpu(1, uuid=None))

        assert outcomes(first) == [Outcome.NEW]
        assert units(again) == ["unit-1"]

    def test_a_serial_is_text_to_the_character(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(slot=A, serial="0322218049033"))

        matches = keeper.list("b", gpu(slot=A, serial="322218049033"))

        assert outcomes(matches) == [Outcome.NEW]

    def test_another_asset_tag_or_firmware_makes_no_second_device(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1, uuid=None, asset_tag="T1"))

        (found,) = keeper.list("a", gpu(1, uuid=None, asset_tag="T2", part_number="other", model="other"))

        assert found.unit_id == "unit-1"

    def test_two_entries_never_end_at_one_unit(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(slot=A, uuid=U1, serial=S))

        matches = keeper.list("a", gpu(slot=B, serial=S), gpu(slot=A, uuid=U1))

        assert outcomes(matches) == [Outcome.UNIDENTIFIED, Outcome.KNOWN]

    def test_the_twin_of_the_only_known_unit_is_not_taken_for_it(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(slot=A, uuid=U1, serial=S, model="NVIDIA GB200", module_id="1"))

        by_module = keeper.list("b", gpu(slot=A, serial=S, model="NVIDIA GB200", module_id="2"))
        itself = keeper.list("b", gpu(slot=C, serial=S, model="NVIDIA GB200", module_id="1"))

        assert outcomes(by_module) == [Outcome.UNIDENTIFIED]
        assert units(itself) == ["unit-1"]


class TestRow6:
    @pytest.fixture
    def board(self, keeper: Keeper) -> Keeper:
        """Four GPUs of one Tesla M10, in four slots of node a."""
        keeper.list("a", *(self.entry(at, uuid=f"GPU-{at}1111111-0000-0000-0000-000000000000") for at in "1234"))
        return keeper

    @staticmethod
    def entry(at: str, **shown: str | None) -> DeviceEntry:
        return gpu(**({"slot": f"0000:0{at}:00.0", "serial": S, "model": "Tesla M10", "module_id": at} | shown))

    def test_four_uuids_under_one_serial_are_four_units_of_one_board(self, board: Keeper) -> None:
        assert len(board.units) == 4
        assert len({unit.board_id for unit in board.units.values()}) == 1

    def test_the_module_id_tells_them_apart_on_any_node(self, board: Keeper) -> None:
        matches = board.list("b", *(self.entry(at) for at in "4321"))

        assert units(matches) == ["unit-4", "unit-3", "unit-2", "unit-1"]
        assert {found.matched_by for found in matches} == {MatchedBy.MODULE_ID}

    def test_else_the_slot_of_this_instance_does(self, board: Keeper) -> None:
        matches = board.list("a", *(self.entry(at, module_id=None) for at in "21"))

        assert units(matches) == ["unit-2", "unit-1"]
        assert {found.matched_by for found in matches} == {MatchedBy.BOARD_SLOT}

    def test_else_they_are_unidentified(self, board: Keeper) -> None:
        matches = board.list("b", *(self.entry(at, module_id=None) for at in "12"))

        assert outcomes(matches) == [Outcome.UNIDENTIFIED] * 2

    def test_a_module_id_outweighs_the_slot(self, board: Keeper) -> None:
        (found,) = board.list("a", self.entry("1", module_id="7"))

        assert found.outcome is Outcome.UNIDENTIFIED

    def test_one_module_id_in_two_entries_tells_nothing(self, board: Keeper) -> None:
        matches = board.list("b", self.entry("1"), self.entry("2", module_id="1"))

        assert outcomes(matches) == [Outcome.UNIDENTIFIED] * 2

    def test_the_last_unit_in_the_slot_is_it_even_when_another_board_was_there_before(self, board: Keeper) -> None:
        board.list("a", gpu(9, slot="0000:01:00.0"), *(self.entry(at) for at in "234"))

        matches = board.list("a", gpu(9, slot=C), self.entry("1", module_id=None), self.entry("2", module_id=None))

        assert outcomes(matches) == [Outcome.KNOWN, Outcome.UNIDENTIFIED, Outcome.KNOWN]

    def test_a_serial_twice_without_uuids_and_records_says_nothing(self, keeper: Keeper) -> None:
        matches = keeper.list("a", gpu(slot=A, serial=S), gpu(slot=B, serial=S))

        assert outcomes(matches) == [Outcome.UNIDENTIFIED] * 2

    def test_a_serial_twice_makes_a_board_of_several(self, keeper: Keeper) -> None:
        first = keeper.list("a", gpu(slot=A, uuid=U1, serial=S), gpu(slot=B, uuid=U2, serial=S))
        firmware = keeper.list(
            "a", gpu(slot=B, uuid=U2, serial=S, name="v2"), gpu(slot=A, uuid=U1, serial=S, name="v1")
        )
        mixed = keeper.list("a", gpu(slot=C, uuid=U3, serial=S), gpu(slot=B, serial=S))

        assert outcomes(first) == [Outcome.NEW] * 2
        assert len({found.board_key for found in first}) == 1
        assert units(firmware) == ["unit-2", "unit-1"]
        assert outcomes(mixed) == [Outcome.NEW, Outcome.KNOWN]
        assert mixed[0].board_id == keeper.units["unit-1"].board_id
        assert mixed[1].unit_id == "unit-2"


class TestRow7:
    def test_a_gpu_that_shows_nothing_is_the_one_placed_in_its_slot(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1), gpu(2))

        matches = keeper.list("a", gpu(1), gpu(2, serial="ERR!", uuid="[GPU is lost]"))

        assert units(matches) == ["unit-1", "unit-2"]
        assert matches[1].matched_by is MatchedBy.SLOT

    def test_a_missing_unit_still_has_its_slot(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1), gpu(2))
        keeper.list("a", gpu(1))

        assert units(keeper.list("a", gpu(1), gpu(slot=gpu(2).slot))) == ["unit-1", "unit-2"]

    @pytest.mark.parametrize(
        ("instance", "entry"),
        [("a", gpu(slot=C)), ("a", gpu()), ("b", gpu(slot=A)), ("a", gpu(slot=A, vendor="amd"))],
        ids=["no unit there", "no slot", "another instance", "another maker"],
    )
    def test_else_it_is_unidentified(self, keeper: Keeper, instance: str, entry: DeviceEntry) -> None:
        keeper.list("a", gpu(1, slot=A))

        assert outcomes(keeper.list(instance, entry)) == [Outcome.UNIDENTIFIED]

    def test_a_unit_that_a_better_entry_has_is_not_matched_by_its_old_slot(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1, slot=A))

        matches = keeper.list("a", gpu(slot=A), gpu(1, slot=B))

        assert outcomes(matches) == [Outcome.UNIDENTIFIED, Outcome.KNOWN]

    @pytest.mark.parametrize(("gone", "left"), [(1, "unit-2"), (2, "unit-1")])
    def test_of_two_placed_in_one_slot_it_is_the_one_that_is_nowhere_else(
        self, keeper: Keeper, gone: int, left: str
    ) -> None:
        keeper.list("a", gpu(1, slot=A), gpu(2, slot=A))

        assert outcomes(keeper.list("a", gpu(slot=A))) == [Outcome.UNIDENTIFIED]
        for _ in range(2):
            assert units(keeper.list("a", gpu(slot=A), gpu(gone, slot=B)))[0] == left

    def test_nor_one_that_a_conflict_of_the_list_is_about(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1, slot=A))

        matches = keeper.list("a", gpu(1, slot=B), gpu(1, slot=C), gpu(slot=A))

        assert outcomes(matches) == [Outcome.CONFLICT, Outcome.CONFLICT, Outcome.UNIDENTIFIED]

    def test_a_swapped_module_is_another_unit_in_the_same_slot(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1, slot=A))

        matches = keeper.list("a", gpu(99, slot=A))

        assert outcomes(matches) == [Outcome.NEW]
        assert keeper.units["unit-1"].place is None


class TestUniqueId:
    ID = "0x67c6000000000001"

    def test_a_uuid_that_comes_later_is_added_to_the_unit_of_the_unique_id(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(slot=A, uuid="N/A", unique_id=self.ID, vendor="amd"))

        (found,) = keeper.list("a", gpu(slot=A, uuid=U1, unique_id=self.ID, vendor="amd"))
        (again,) = keeper.list("a", gpu(slot=B, uuid=U1, vendor="amd"))

        assert (found.unit_id, found.matched_by) == ("unit-1", MatchedBy.UNIQUE_ID)
        assert (again.unit_id, again.matched_by) == ("unit-1", MatchedBy.UUID)

    def test_both_known_for_two_units_are_a_conflict(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(slot=A, uuid=U1), gpu(slot=B, unique_id=self.ID))

        (found,) = keeper.list("a", gpu(slot=A, uuid=U1, unique_id=self.ID))

        assert found.rule is ConflictRule.IDS_DISAGREE
        assert found.involved == ("unit-1", "unit-2")

    @pytest.mark.parametrize("shown", [{"uuid": U2, "unique_id": ID}, {"uuid": U1, "unique_id": "0x67c6000000000002"}])
    def test_a_second_one_for_a_unit_that_has_another_is_a_conflict(
        self, keeper: Keeper, shown: dict[str, str | None]
    ) -> None:
        keeper.list("a", gpu(slot=A, uuid=U1, unique_id=self.ID))

        assert rules(keeper.list("a", gpu(slot=A, **shown))) == [ConflictRule.IDS_DISAGREE]

    def test_two_entries_that_name_one_unit_in_two_ways_are_a_conflict(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(slot=A, uuid=U1, unique_id=self.ID))

        matches = keeper.list("a", gpu(slot=A, uuid=U1), gpu(slot=B, unique_id=self.ID))

        assert rules(matches) == [ConflictRule.UUID_REPEATED] * 2

    def test_it_stands_in_for_a_uuid_in_row_3(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(slot=A, serial=S))

        (added,) = keeper.list("a", gpu(slot=A, serial=S, unique_id=self.ID))
        (other,) = keeper.list("a", gpu(slot=A, serial=S, unique_id="0x67c6000000000002"))

        assert added.unit_id == "unit-1"
        assert other.rule is ConflictRule.BOARD_TAKEN


class TestManyPlaces:
    def test_a_serial_on_two_live_nodes_with_different_uuids_is_a_conflict(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(slot=A, uuid=U1, serial="12345"))

        (found,) = keeper.list("b", gpu(slot=A, uuid=U2, serial="12345"))

        assert found.rule is ConflictRule.SERIAL_ON_TWO_NODES
        assert found.involved == ("unit-1",)

    def test_also_on_boards_that_carry_several(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(slot=A, uuid=U1, serial=S, model="Tesla M60"))

        (found,) = keeper.list("b", gpu(slot=A, uuid=U2, serial=S, model="Tesla M60"))

        assert found.rule is ConflictRule.SERIAL_ON_TWO_NODES
        assert len(keeper.units) == 1

    def test_a_known_unit_away_from_its_board_is_in_conflict_until_the_rest_comes_too(self, keeper: Keeper) -> None:
        both = gpu(slot=A, uuid=U1, serial=S), gpu(slot=B, uuid=U2, serial=S)
        keeper.list("a", *both)

        (found,) = keeper.list("b", both[1])
        together = keeper.list("b", *both)

        assert found.rule is ConflictRule.SERIAL_ON_TWO_NODES
        assert found.involved == ("unit-2", "unit-1")
        assert units(together) == ["unit-1", "unit-2"]

    def test_a_silent_node_is_no_second_place(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(slot=A, uuid=U1, serial=S, model="Tesla M60"))
        keeper.lose("a")

        assert outcomes(keeper.list("b", gpu(slot=A, uuid=U2, serial=S, model="Tesla M60"))) == [Outcome.NEW]

    def test_eight_units_may_share_a_serial_and_nine_may_not(self, keeper: Keeper) -> None:
        nine = [gpu(number, serial="12345") for number in range(1, 10)]

        too_many = keeper.list("a", *nine)
        eight = keeper.list("a", *nine[:8])
        again = keeper.list("a", *nine)

        assert rules(too_many) == [ConflictRule.TOO_MANY_UNITS] * 9
        assert outcomes(eight) == [Outcome.NEW] * 8
        assert rules(again) == [ConflictRule.TOO_MANY_UNITS] * 9
        assert set(again[8].involved) == set(keeper.units)

    def test_a_unit_moves_at_once(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1), gpu(2))

        matches = keeper.list("b", gpu(2), gpu(1))

        assert units(matches) == ["unit-2", "unit-1"]

    def test_a_unit_that_the_loser_lists_again_is_in_conflict_on_both_sides_of_the_move(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1))
        keeper.list("b", gpu(1))

        (found,) = keeper.list("a", gpu(1))
        (again,) = keeper.list("a", gpu(1))

        assert found.rule is ConflictRule.TWO_NODES
        assert found.involved == ("unit-1",)
        assert "node b" in found.reason
        assert conflict_key(found) == conflict_key(again)

    def test_it_ends_with_a_list_without_the_unit_or_with_the_other_nodes_silence(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1), gpu(2))
        keeper.list("b", gpu(1), gpu(2))

        keeper.list("a", gpu(2))
        back = keeper.list("a", gpu(1), gpu(2))
        keeper.lose("b")
        after = keeper.list("a", gpu(1), gpu(2))

        assert rules(back) == [None, ConflictRule.TWO_NODES]
        assert units(after) == ["unit-1", "unit-2"]


class TestEfa:
    GUID = "0000:0000:0000:0000"

    def entry(self, at: int, **shown: str | None) -> DeviceEntry:
        given = {"gid": f"fe80::{at}:2ff:fe03:4", "node_guid": self.GUID} | shown
        return efa(given.pop("slot", None) or f"0000:0{at}:00.0", **given)

    def test_zero_guids_on_two_nodes_are_eight_devices(self, keeper: Keeper) -> None:
        entries = [self.entry(at) for at in range(1, 5)]

        one, other = keeper.list("a", *entries), keeper.list("b", *entries)
        again = keeper.list("a", *reversed(entries))

        assert outcomes((*one, *other)) == [Outcome.NEW] * 8
        assert units(again) == ["unit-4", "unit-3", "unit-2", "unit-1"]
        assert {found.matched_by for found in again} == {MatchedBy.PLACE}

    def test_another_name_in_the_same_place_is_the_same_device(self, keeper: Keeper) -> None:
        keeper.list("a", self.entry(1, name="efa_0"))

        (found,) = keeper.list("a", self.entry(1, name="rdmap0s6"))

        assert found.unit_id == "unit-1"

    def test_another_address_in_the_same_place_is_another_device(self, keeper: Keeper) -> None:
        keeper.list("a", self.entry(1))

        (found,) = keeper.list("a", self.entry(2, slot="0000:01:00.0"))

        assert found.outcome is Outcome.NEW
        assert keeper.units["unit-1"].place is None

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ({"gid": None}, {"gid": "fe80::1:2ff:fe03:4"}),
            ({"gid": None, "mac": "02-01-02-03-00-04"}, {"gid": "fe80::1:2ff:fe03:4"}),
            ({"gid": "fe80::1:2ff:fe03:4"}, {"gid": None, "mac": "02:01:02:03:00:04"}),
            ({"gid": "fe80::1:2ff:fe03:4"}, {"gid": None}),
            ({"gid": None, "mac": "02:ab:cd:00:00:01"}, {"gid": None, "mac": "02ABCD000001"}),
            ({"gid": "fe80::1"}, {"gid": None, "mac": "02:ab:cd:00:00:01"}),
        ],
    )
    def test_an_address_that_is_not_shown_or_written_otherwise_is_no_difference(
        self, keeper: Keeper, before: dict[str, str | None], after: dict[str, str | None]
    ) -> None:
        keeper.list("a", self.entry(1, **before))

        assert units(keeper.list("a", self.entry(1, **after))) == ["unit-1"]

    def test_a_slot_on_one_instance_ends_with_it(self, keeper: Keeper) -> None:
        keeper.list("a", self.entry(1))

        assert outcomes(keeper.list("b", self.entry(1))) == [Outcome.NEW]

    def test_an_interface_in_another_slot_has_moved(self, keeper: Keeper) -> None:
        keeper.list("a", self.entry(1), self.entry(2))

        crossed = self.entry(1, slot="0000:02:00.0"), self.entry(2, slot="0000:01:00.0")

        assert units(keeper.list("a", *crossed)) == ["unit-1", "unit-2"]

    def test_an_address_outweighs_a_slot_whose_card_showed_none(self, keeper: Keeper) -> None:
        keeper.list("a", self.entry(1, gid=None), self.entry(2))

        assert units(keeper.list("a", self.entry(2, slot="0000:01:00.0"))) == ["unit-2"]

    def test_without_a_slot_the_address_finds_the_place(self, keeper: Keeper) -> None:
        keeper.list("a", self.entry(1), self.entry(2))

        matches = keeper.list("a", efa(gid="fe80::2:2ff:fe03:4"), efa(mac="02:99:00:00:00:01"), efa())

        assert outcomes(matches) == [Outcome.KNOWN, Outcome.NEW, Outcome.UNIDENTIFIED]
        assert matches[0].unit_id == "unit-2"

    def test_one_address_twice_without_slots_tells_nothing(self, keeper: Keeper) -> None:
        matches = keeper.list("a", efa(mac="02:99:00:00:00:01"), efa(mac="02:99:00:00:00:01"))

        assert outcomes(matches) == [Outcome.UNIDENTIFIED] * 2

    def test_addresses_of_two_cards_tell_nothing(self, keeper: Keeper) -> None:
        keeper.list("a", self.entry(1, gid="fe80::1"), self.entry(2, gid=None, mac="02:99:00:00:00:01"))

        (found,) = keeper.list("a", efa(gid="fe80::1", mac="02:99:00:00:00:01"))

        assert found.outcome is Outcome.UNIDENTIFIED

    def test_a_serial_is_hardware_and_is_found_on_any_node(self, keeper: Keeper) -> None:
        keeper.list("a", self.entry(1, serial="EFA77"))

        (found,) = keeper.list("b", self.entry(3, serial="EFA77"))

        assert (found.unit_id, found.matched_by) == ("unit-1", MatchedBy.SERIAL)

    def test_a_node_guid_is_never_a_key(self, keeper: Keeper) -> None:
        keeper.list("a", efa(A, node_guid="0012:34ff:fe56:789a"))

        assert outcomes(keeper.list("a", efa(B, node_guid="0012:34ff:fe56:789a"))) == [Outcome.NEW]


class TestRulings:
    def test_a_ruling_stands_before_the_table(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1), gpu(2))
        (conflict,) = keeper.list("a", gpu(1, serial=S))
        keeper.rulings[conflict.fingerprint] = "unit-1"

        (here,) = match([gpu(1, serial=S)], keeper.known("a"), Policy())
        (elsewhere,) = keeper.list("a", gpu(1, serial=S, slot=C))

        assert conflict.fingerprint == Fingerprint("gpu", "nvidia", gpu(1).uuid or "", "", S, "a", gpu(1).slot or "")
        assert (here.unit_id, here.matched_by) == ("unit-1", MatchedBy.RULING)
        assert conflict.rule is elsewhere.rule is ConflictRule.SERIAL_DIFFERS

    def test_a_ruling_for_anywhere_needs_an_identifier(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1))
        keeper.rulings[Fingerprint("gpu", "nvidia", uuid=U1)] = "unit-1"
        keeper.rulings[Fingerprint("gpu", "nvidia")] = "unit-1"

        assert units(keeper.list("b", gpu(slot=A, uuid=U1))) == ["unit-1"]
        assert outcomes(keeper.list("b", gpu(slot=B))) == [Outcome.UNIDENTIFIED]

    def test_rulings_never_bring_two_entries_to_one_unit(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(1))
        keeper.rulings[Fingerprint("gpu", "nvidia", uuid=U1)] = "unit-1"
        keeper.rulings[Fingerprint("gpu", "nvidia", uuid=U2)] = "unit-1"

        both = keeper.list("a", gpu(slot=A, uuid=U1), gpu(slot=B, uuid=U2))
        beside = keeper.list("a", gpu(slot=A, uuid=U1), gpu(1))

        assert rules(both) == [ConflictRule.UUID_REPEATED] * 2
        assert rules(beside) == [None, ConflictRule.UUID_REPEATED]

    def test_one_of_two_equal_uuids_can_be_ruled(self, keeper: Keeper) -> None:
        first = keeper.list("a", gpu(slot=A, uuid=U1), gpu(slot=B, uuid=U1), gpu(3), gpu(4))
        keeper.rulings = {first[0].fingerprint: "unit-1", first[1].fingerprint: "unit-2"}

        both = match([gpu(slot=A, uuid=U1), gpu(slot=B, uuid=U1)], keeper.known("a"), Policy())

        assert units(both) == ["unit-1", "unit-2"]

    def test_a_ruling_settles_a_serial_on_two_nodes_but_not_one_unit_on_two(self, keeper: Keeper) -> None:
        keeper.list("a", gpu(slot=A, uuid=U1, serial=S), gpu(slot=B, uuid=U2, serial=S))
        (torn,) = keeper.list("b", gpu(slot=B, uuid=U2, serial=S))
        keeper.rulings[torn.fingerprint.anywhere] = "unit-2"

        (settled,) = keeper.list("b", gpu(slot=B, uuid=U2, serial=S))
        again = keeper.list("a", gpu(slot=A, uuid=U1, serial=S), gpu(slot=B, uuid=U2, serial=S))

        assert settled.matched_by is MatchedBy.RULING
        assert again[1].rule is ConflictRule.TWO_NODES


def test_every_reason_names_what_a_person_would_look_for(keeper: Keeper) -> None:
    (found,) = keeper.list("a", gpu(1, unique_id="0x1"))

    assert found.reason.startswith("nvidia gpu serial 1650000000001 UUID GPU-00000001-")
    assert "unique id 0x1 in slot 0000:01:00.0: first seen" in found.reason


def test_a_conflict_key_is_for_conflicts(keeper: Keeper) -> None:
    (found,) = keeper.list("a", gpu(1))

    with pytest.raises(ValueError, match="no conflict"):
        conflict_key(found)


def test_a_conflict_keeps_its_key_when_the_slot_changes(keeper: Keeper) -> None:
    keeper.list("a", gpu(1))

    keys = {conflict_key(keeper.list("a", gpu(1, serial=S, slot=slot))[0]) for slot in (A, B)}

    assert len(keys) == 1


def test_azure_gpus_that_only_the_domain_tells_apart_keep_their_places(keeper: Keeper) -> None:
    domains = ["1", "2", "3", "4", "b", "c", "d", "e"]
    keeper.list("a", *(gpu(at, slot=normalise_slot(f"{domain}:00:00.0")) for at, domain in enumerate(domains, 1)))

    (found,) = keeper.list("a", gpu(slot=normalise_slot("000B:00:00")))

    assert found.unit_id == "unit-5"


@pytest.mark.parametrize(
    "model",
    [
        *("Tesla M10", "NVIDIA A16", "Tesla M60", "Tesla K80", "NVIDIA GB200", "NVIDIA GB300 NVL72"),
        *("GRID K1", "GRID K2", "AMD Instinct MI250X"),
    ],
)
def test_models_with_several_gpus_on_a_board_are_known(model: str) -> None:
    assert board_carries_several(model)


@pytest.mark.parametrize(
    "model", [None, "", "NVIDIA H100 80GB HBM3", "NVIDIA A10G", "Quadro K2000", "Quadro K2", "Tesla M6"]
)
def test_other_models_carry_one(model: str | None) -> None:
    assert not board_carries_several(model)


def test_no_known_board_carries_more_than_the_limit() -> None:
    assert max(MULTI_UNIT_MODELS.values()) <= 8


def test_an_efa_known_by_its_place_that_shows_a_serial_is_the_same_card(keeper: Keeper) -> None:
    mac, first_serial = "02:00:00:00:00:01", "EFA0000000001"
    for shown in ({"mac": mac}, {}):
        keeper = Keeper()
        keeper.list("a", efa("0000:50:00.0", **shown))

        (after,) = keeper.list("a", efa("0000:50:00.0", serial=first_serial, **shown))

        assert (after.outcome, after.matched_by) == (Outcome.KNOWN, MatchedBy.PLACE)


def test_an_efa_that_shows_another_serial_than_the_one_on_record_is_another_card(keeper: Keeper) -> None:
    keeper.list("a", efa("0000:50:00.0", mac="02:00:00:00:00:01", serial="EFA0000000001"))

    (after,) = keeper.list("a", efa("0000:50:00.0", mac="02:00:00:00:00:01", serial="EFA0000000002"))

    assert after.outcome is Outcome.NEW
