"""The estimate against the simulation: seeded jobs, on ideal memory and on DRAM."""

import pytest

from tests.cosim.estimate_cases import BUILDS, DRAMS, Case, case, simulate

QUICK = ("64 bits", "fold 4")
"""Builds of every test; the long tests have all."""
IDEAL_CASES, DRAM_CASES = 12, 3
SEVERAL = [build for build in BUILDS if build not in QUICK]


def marked(builds) -> list:
    """Builds as parameters, those that take long to compile with a mark."""
    return [*QUICK, *(pytest.param(build, marks=pytest.mark.long) for build in builds)]


def check(cases: list[Case], folder) -> None:
    """Fail with all estimates that are off by more than they may."""
    wrong = []
    for each in cases:
        found = each.estimate()
        counted = int(simulate(each, folder)["cycles"])
        error = found.cycles - counted
        if abs(error) > each.allowance(found):
            wrong.append(f"{each.name}: {found.cycles} estimated, {counted} simulated")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("build", marked(SEVERAL))
def test_cycles_are_estimated_within_15_on_ideal_memory(build, tmp_path):
    check([case(build, number) for number in range(IDEAL_CASES)], tmp_path)


@pytest.mark.parametrize("build", marked(SEVERAL))
def test_cycles_are_estimated_within_a_per_cent_on_dram(build, tmp_path):
    cases = [case(build, number, dram) for dram in DRAMS[build] for number in range(DRAM_CASES)]
    check(cases, tmp_path)


@pytest.mark.parametrize("build", marked(SEVERAL))
def test_the_split_of_cycles_is_that_of_the_counters(build, tmp_path):
    for number in range(4):
        each = case(build, number)
        found, counters = each.estimate(), simulate(each, tmp_path)
        assert found.data in counters["stream_beats"]
        assert found.bytes_read == counters["data_beats"].sum() * each.config.bus_bytes
        assert found.bytes_written == counters["bytes_written"]
        parts = found.start + found.data + found.waiting + found.refused + found.tail
        assert parts == found.cycles


def test_the_sweep_covers_what_may_bind():
    found = [case(build, number).estimate() for build in BUILDS for number in range(IDEAL_CASES)]
    assert len(found) >= 60
    bound = {each.bound_by for each in found}
    assert bound >= {"bus", "compute", "latency", "overhead", "top-k"}
    assert min(each.cycles for each in found) < 300 < 50_000 < max(each.cycles for each in found)
