"""How a LiteX system is named on the command line."""

from pathlib import Path

import pytest

from host.devices.litex import open_litex
from host.errors import UsageError


@pytest.mark.parametrize("where", ["", ":1234", "board:", "board:0", "board:70000", "board:x"])
def test_what_is_no_address_is_a_usage_error(where):
    with pytest.raises(UsageError, match=r"--device: is no address.*litex:HOST\[:PORT\]"):
        open_litex(where, Path("csr.csv"))
