import warnings

from amaranth.hdl import UnusedElaboratable


def pytest_configure(config):
    # Blocks that refuse their parameters are never elaborated. Some are collected only after the
    # last test, when the filters of pytest are gone.
    config.addinivalue_line("filterwarnings", "ignore::amaranth.hdl.UnusedElaboratable")
    warnings.simplefilter("ignore", UnusedElaboratable)
