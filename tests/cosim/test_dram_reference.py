"""The DRAM model against DRAMsim3 and Ramulator 2, pattern by pattern."""

import pytest

from tests.dram_reference import Reference, references


@pytest.mark.parametrize("reference", references(), ids=lambda reference: reference.name)
def test_the_model_is_within_the_range_of_two_simulators(reference: Reference):
    measured = reference.measure()
    assert reference.agrees(measured), (measured, reference.dramsim3, reference.ramulator2)


def test_four_devices_are_compared_in_every_kind_of_pattern():
    kinds = {(reference.device, reference.pattern) for reference in references()}
    devices = {device for device, _ in kinds}
    patterns = {pattern for _, pattern in kinds}
    assert len(devices) == 4
    assert len(patterns) == 9
    assert len(kinds) == len(devices) * len(patterns)
