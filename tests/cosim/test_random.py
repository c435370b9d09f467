"""Random configurations under cocotb: bit-exact, with stalls on all channels."""

import pytest

from sim import cosim
from tests.cosim.configurations import COVERED, KS, SETUPS, SHORT, coverage_table


def marked(setup):
    marks = [pytest.mark.long] if setup.seed >= SHORT else []
    return pytest.param(setup, id=f"{setup.seed}", marks=marks)


@pytest.mark.parametrize("setup", [marked(setup) for setup in SETUPS])
def test_random_configuration(setup, tmp_path):
    cosim.run(
        "tests.cosim.bench_random",
        setup.config,
        tmp_path,
        memory=setup.memory,
        parameters={"setup": setup},
        seed=setup.seed,
    )


def test_the_configurations_cover_every_value(capsys):
    for name, values in COVERED.items():
        assert {getattr(setup.config, name) for setup in SETUPS} == set(values), name
    assert {setup.config.k for setup in SETUPS} == set(KS)
    assert sum(setup.large for setup in SETUPS) * 4 >= len(SETUPS)
    with capsys.disabled():
        print("\n" + coverage_table(SETUPS))
