"""Initialisation and read levelling of the DRAM, on registers in Python."""

import pytest

from host.device import DeviceError
from host.litex.levelling import SELECT_HARDWARE, Setting, initialise, widest_window
from tests.host.fake_dram import LOADS, FakeDram, Lane


def settings(*lanes):
    dram = FakeDram(list(lanes))
    found = initialise(dram)
    # What was found is what the PHY is left at.
    assert [(lane.set_bitslip, lane.set_delay) for lane in lanes] == [
        (setting.bitslip, setting.delay) for setting in found
    ]
    return dram, found


@pytest.mark.parametrize("bitslip", range(4))
@pytest.mark.parametrize(("first", "last", "middle"), [(0, 7, 3), (2, 4, 3), (5, 5, 5), (1, 6, 3)])
def test_each_lane_reads_in_the_middle_of_its_own_window(bitslip, first, last, middle):
    other = Lane((bitslip + 1) % 4, range(0, 3))
    _, found = settings(Lane(bitslip, range(first, last + 1)), other)
    assert found == (
        Setting(bitslip, middle, first, last),
        Setting((bitslip + 1) % 4, 1, 0, 2),
    )


def test_a_delay_without_a_strobe_is_no_part_of_the_window():
    _, found = settings(Lane(2, range(8), strobes=range(4, 7)), Lane(0, range(1, 6), range(2, 8)))
    assert [(setting.first, setting.last) for setting in found] == [(4, 6), (2, 5)]


def test_the_memory_is_initialised_in_order_and_handed_to_the_controller():
    dram, _ = settings(Lane(0, range(8)), Lane(0, range(8)))
    assert dram.loads == list(LOADS.items())
    assert dram.waited[:2] == [(500, 0xC), (100, 0xE)]
    assert dram.values["sdram_dfii_control"] == SELECT_HARDWARE
    assert dram.values["ddrphy_dly_sel"] == 0


def test_a_lane_without_a_window_is_an_error_that_shows_the_scan():
    with pytest.raises(
        DeviceError, match=r"^board: .* lane 1 reads right at no setting.* 01110000"
    ):
        initialise(FakeDram([Lane(1, range(1, 4)), Lane(0, range(0))]))


class Hesitant(FakeDram):
    """Steps of one lane alone, which only the final setting makes, are not taken at first."""

    def __init__(self, lanes, ignored):
        super().__init__(lanes)
        self.ignored = ignored

    def write(self, name, value):
        alone = self.values.get("ddrphy_dly_sel") in (1, 2)
        if name == "ddrphy_rdly_dq_inc" and alone and self.ignored:
            self.ignored -= 1
            return
        super().write(name, value)


def test_settings_are_made_until_they_hold():
    lanes = [Lane(1, range(3, 6)), Lane(2, range(4, 7))]
    initialise(Hesitant(lanes, ignored=7))
    assert [lane.set_delay for lane in lanes] == [4, 5]
    with pytest.raises(DeviceError, match="^board: .* reads wrong in the middle of windows"):
        initialise(Hesitant([Lane(1, range(3, 6)), Lane(2, range(4, 7))], ignored=1000))


def test_the_longest_run_of_delays_wins():
    rows = [[True, False, True, True], [False, True, True, True], [True, True, False, False]]
    assert widest_window(rows) == Setting(1, 2, 1, 3)
    assert widest_window([[False] * 8] * 4) is None
