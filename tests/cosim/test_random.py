"""Random configurations under cocotb: bit-exact, with stalls on all channels."""

import pytest

from sim import cosim
from tests.cosim.configurations import COVERED, QUICK, SETUPS, SHORT_SEEDS, coverage_table


def marked(setup):
    if setup.seed in SHORT_SEEDS[:QUICK]:
        marks = []
    else:
        marks = [pytest.mark.long if setup.seed in SHORT_SEEDS else pytest.mark.sweep]
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
        quick=True,
    )


@pytest.mark.parametrize(
    "setups",
    [SETUPS, [setup for setup in SETUPS if setup.seed in SHORT_SEEDS]],
    ids=["all", "short"],
)
def test_the_configurations_cover_every_value(setups, capsys):
    for name, values in COVERED.items():
        assert {getattr(setup.config, name) for setup in setups} == set(values), name
    with capsys.disabled():
        print("\n" + coverage_table(setups))


def test_some_heads_are_large():
    assert sum(setup.large for setup in SETUPS) >= len(SETUPS) // 10
