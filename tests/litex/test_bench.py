"""The bench of the ECPIX-5's system: what is missed fails it."""

import pytest

from tests.bench import ecpix5

pytestmark = pytest.mark.litex


@pytest.mark.parametrize(
    "met, bytes_per_s, code", [(True, 551e6, 0), (False, 551e6, 1), (True, 549e6, 1)]
)
def test_a_requirement_that_is_missed_fails_the_bench(monkeypatch, met, bytes_per_s, code):
    monkeypatch.setattr(ecpix5, "place", lambda config: met)
    monkeypatch.setattr(ecpix5, "bandwidth", lambda config: bytes_per_s)
    assert ecpix5.main() == code
