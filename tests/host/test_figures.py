"""Figures of counters, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from host.reports.figures import Figures, MemoryRates
from host.reports.memory_rates import memory_rates
from host.reports.report import details
from host.results import Results, of_channels
from hw.config import HeadConfig
from hw.layout import ImageLayout
from hw.plan import hidden_beats
from hw.stream_control import start_clocks
from sim.memory import MemoryModel


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


BUS_BYTES = 8
CONFIG = HeadConfig(bus_bits=64, channels=2, batch=2, max_dim=64, max_rows=256)
LAYOUT = ImageLayout(CONFIG, rows=70, dim=40)


def counted(layouts, vectors=(2, 1), mask_beats=0):
    """Results of jobs on accelerators with two channels each, their counters made up."""
    jobs, channels = len(vectors), 2 * len(layouts)
    images = [[layout.channel_beats(channel) for layout in layouts for channel in (0, 1)]] * jobs
    stream = np.array(images)
    for job, count in enumerate(vectors):
        stream[job, ::2] += hidden_beats(CONFIG, 40, count)
    channel_counters = {
        "stream_beats": stream,
        "data_beats": stream + mask_beats,
        "wait_cycles": np.arange(jobs * channels).reshape(jobs, channels),
        "refused_cycles": np.full((jobs, channels), 5),
    }
    states = sum(vectors)
    return Results(
        ids=np.zeros((states, 1), np.int32),
        scores=np.zeros((states, 1), np.int64),
        logits=np.zeros((states, 1)),
        hidden_scales=np.ones(states),
        counters={
            "cycles": np.array([5000, 4000][:jobs]),
            "bytes_written": np.full(jobs, 64),
            **of_channels(channel_counters),
        },
        channel_counters=channel_counters,
        job_of=np.repeat(np.arange(jobs), vectors),
    )


def test_every_cycle_is_accounted_for():
    results = counted([LAYOUT])
    cycles = Figures(results, BUS_BYTES, 1e6, [LAYOUT]).cycles
    assert cycles.start.tolist() == [
        [start_clocks(CONFIG, vectors, channel) for channel in (0, 1)] for vectors in (2, 1)
    ]
    parts = (cycles.data, cycles.waiting, cycles.refused, cycles.start, cycles.tail)
    assert sum(parts).tolist() == [[5000, 5000], [4000, 4000]]
    assert (cycles.data == results.channel_counters["stream_beats"]).all()
    means = cycles.means()
    assert sum(means.values()) == 4500
    assert (means["waiting"], means["refused"]) == (1.5, 5)


def test_start_and_tail_are_saved_like_counters():
    figures = Figures(counted([LAYOUT]), BUS_BYTES, 1e6, [LAYOUT])
    arrays = figures.arrays()
    names = {"start_cycles", "tail_cycles"}
    assert set(arrays) == names | {f"channel_{name}" for name in names}
    for name in ("start", "tail"):
        assert (arrays[f"channel_{name}_cycles"] == getattr(figures.cycles, name)).all()
        assert (arrays[f"{name}_cycles"] == getattr(figures.cycles, name).sum(axis=1)).all()


def test_every_byte_read_is_accounted_for():
    results = counted([LAYOUT], mask_beats=3)
    figures = Figures(results, BUS_BYTES, 1e6, [LAYOUT])
    payload = figures.payload
    assert sum(payload.values()) == figures.bytes_read.mean()
    assert payload["weights"] == 70 * 40
    assert payload["scales"] == 70 * 2 * 2
    assert payload["column_padding"] == 70 * 24
    assert payload["mask"] == 2 * 3 * BUS_BYTES
    assert payload["hidden"] == 1.5 * 128
    assert figures.payload_efficiency == 2800 / figures.bytes_read.mean()
    values = figures.as_dict()
    assert values["bytes_per_job"] == payload
    assert sum(values["cycles_per_job"].values()) == 4500


def test_padded_rows_lower_the_row_efficiency():
    config = replace(CONFIG, width=2)
    layout = ImageLayout(config, rows=70, dim=40)
    assert config.units == 4
    figures = Figures(counted([layout]), BUS_BYTES, 1e6, [layout])
    assert figures.row_efficiency == 70 / 72
    # 64 columns of weights, two scales.
    assert figures.payload["row_padding"] == 2 * (64 + 4)


def test_shards_stand_side_by_side():
    other = ImageLayout(CONFIG, rows=130, dim=40)
    results = counted([LAYOUT, other])
    figures = Figures(results, BUS_BYTES, 1e6, [LAYOUT, other])
    assert figures.cycles.start.shape == (2, 4)
    assert (figures.cycles.start[:, :2] == figures.cycles.start[:, 2:]).all()
    assert figures.payload["weights"] == 200 * 40
    assert sum(figures.payload.values()) == figures.bytes_read.mean()


def test_rates_are_compared_with_ports_memory_and_dram():
    results = counted([LAYOUT])
    ideal = Figures(results, BUS_BYTES, 1e9, [LAYOUT]).as_dict()
    assert ideal["limits_gigabytes_per_second"] == {"port": 16}
    figures = Figures(results, BUS_BYTES, 1e9, [LAYOUT], MemoryRates(10e9, 12e9))
    values = figures.as_dict()
    assert values["limits_gigabytes_per_second"] == {"port": 16, "memory": 10, "dram": 12}
    rate = values["gigabytes_per_second"]
    assert values["shares_of_limits"] == {
        "port": rate / 16,
        "memory": rate / 10,
        "dram": rate / 12,
    }
    shown = details(figures)["rate"]
    assert f"{100 * rate / 10:.2f} % of 10.00 (memory" in shown


def test_without_a_dram_the_memory_gives_what_the_ports_carry():
    rates = memory_rates(MemoryModel(), [CONFIG, CONFIG], 1e9)
    assert rates == MemoryRates(32e9, None)
    figures = Figures(counted([LAYOUT]), BUS_BYTES, 1e9, [LAYOUT], MemoryRates(16e9))
    assert details(figures)["rate"].endswith("% of 16.00 (ports)")


def test_the_report_names_what_took_cycles_and_bytes():
    shown = details(Figures(counted([LAYOUT]), BUS_BYTES, 1e9, [LAYOUT]))
    assert "1.5 waiting for memory, 5 refused" in shown["cycles"]
    assert "scales" in shown["payload"] and "column padding" in shown["payload"]
    # What no byte belongs to is left out.
    assert "mask" not in shown["payload"] and "terms" not in shown["payload"]
