"""Figures of counters, by hand."""

import numpy as np
import pytest

from host.figures import Figures
from host.results import Results, of_channels


def results(all_logits=None):
    """Three states in two jobs on two channels."""
    channel_counters = {"data_beats": np.array([[100, 60], [100, 40]])}
    counters = {"cycles": np.array([200, 100]), "bytes_written": np.array([320, 160])}
    return Results(
        ids=np.zeros((3, 1), np.int32),
        scores=np.zeros((3, 1), np.int64),
        logits=np.zeros((3, 1)),
        hidden_scales=np.ones(3),
        counters=counters | of_channels(channel_counters),
        channel_counters=channel_counters,
        job_of=np.array([0, 0, 1]),
        all_logits=all_logits,
    )


def test_figures_are_by_state_and_of_all_channels():
    figures = Figures(results(), bus_bytes=64, clock_hz=1e6)
    assert figures.bytes_read.tolist() == [160 * 64, 140 * 64]
    assert figures.utilisation.tolist() == [160 / 400, 140 / 200]
    values = figures.as_dict()
    assert values["cycles_per_token"] == 100
    assert values["tokens_per_second"] == 10_000
    assert values["bytes_per_token"] == 300 * 64 / 3
    assert values["bus_utilisation"] == 300 / 600
    assert values["write_share"] == 480 / (300 * 64)
    assert values["bytes_written_per_token"] == 160
    assert values["gigabytes_per_second"] == pytest.approx(64e6 / 1e9)
    assert figures.peak_gigabytes_per_second == pytest.approx(2 * 64e6 / 1e9)


def test_the_line_names_the_share_written_only_with_all_logits():
    assert "written" not in Figures(results(), 64, 1e6).line()
    line = Figures(results(np.zeros((3, 5))), 64, 1e6).line()
    assert "per token, 2.50 % as many written: at 1 MHz" in line
