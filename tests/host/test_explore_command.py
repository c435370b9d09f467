"""`unembed explore`: its table, CSV file, pictures and report, and its errors."""

import csv
import importlib.util
import json
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from host.cli import main

from .command_line import HIDDEN, assert_one_line, without_progress

HEAD = ("explore", "512x96", "--bus-bits", "64", "-k", "4")
SMALL = (*HEAD, "--lanes", "4,8,16", "--tile-rows", "2,8,32", "--simulate", "none")


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory):
    """One cache for the tests of this file, so that the same points are counted once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(shared_cache, monkeypatch):
    monkeypatch.setenv("UNEMBED_CACHE", str(shared_cache))


@pytest.fixture(scope="module")
def swept(shared_cache, tmp_path_factory):
    """The files of a sweep."""
    folder = tmp_path_factory.mktemp("results") / "new" / "sweep"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNEMBED_CACHE", str(shared_cache))
        assert main([*SMALL, "-o", str(folder)]) == 0
    return folder


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_a_sweep_is_a_table_with_the_front_first(run):
    code, out, err = run(*SMALL)
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0].startswith("512 x 96: 6 points, ")
    assert [name in lines[1] for name in ("lanes", "tile rows", "tokens/s", "DSP")] == [True] * 4
    stars = [line.startswith("*") for line in lines[2:8]]
    assert stars == sorted(stars, reverse=True) and any(stars) and not all(stars)
    assert "combinations that make no hardware: 3" in out
    assert "  3 x 16 lanes cannot be had with 64 bits of int8 a beat" in out


def test_the_table_is_as_long_as_wanted(run):
    code, out, _ = run(*SMALL, "--rows", 2)
    assert code == 0
    assert "4 further points: --rows N shows more" in out


def test_json_has_all_points(run):
    code, out, _ = run(*SMALL, "--json")
    assert code == 0
    found = json.loads(out)
    assert len(found["points"]) == 6
    assert found["head"] == {"name": "512 x 96", "rows": 512, "dim": 96}
    assert set(found["front"]) <= {point["point"] for point in found["points"]}
    assert list(found["invalid"].values()) == [3]


def test_the_csv_file_has_units_and_empty_cells_for_what_was_not_measured(swept):
    found = rows(swept / "results.csv")
    assert len(found) == 6
    for row in found:
        assert row["lanes"] in ("4", "8") and row["clock_MHz"] == "250"
        assert int(row["cycles_estimated"]) > 0 and row["cycles_simulated"] == ""
        speed = 250e6 / int(row["cycles_estimated"])
        assert float(row["tokens_per_s_estimated"]) == pytest.approx(speed)
        assert row["generate_command"].startswith("unembed generate --bus-bits 64")
    assert not list(swept.glob(".*"))


def test_pictures_and_report_are_written(swept):
    names = {path.name for path in (swept / "figures").iterdir()}
    charts = ("front_lut4", "front_dsp", "cycles", "memory", "padding", "where", "roofline")
    assert names == {f"{name}.{suffix}" for name in charts for suffix in ("png", "svg")}
    for name in charts:
        assert (swept / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        ElementTree.parse(swept / "figures" / f"{name}.svg")
    # What all points of a chart have in common stands in the picture and beside it.
    fixed = "250 MHz, bus 64, int8, batch 1, k 4"
    for name in ("cycles", "memory", "padding"):
        assert fixed in (swept / "figures" / f"{name}.svg").read_text()
    report = (swept / "report.html").read_text()
    assert report.count(fixed) == 3
    for name in charts:
        assert f'id="{name}"' in report
    # Nothing is fetched: neither scripts nor styles nor fonts come from elsewhere.
    page = re.sub(r"<script>.*?</script>", "", report, flags=re.DOTALL)
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)
    assert "<link" not in page and "@import" not in page
    assert "3 × 16 lanes cannot be had" in page


def test_the_report_has_the_command_of_every_point(swept):
    report = (swept / "report.html").read_text()
    points = json.loads(re.search(r"const points = (.*);\n", report).group(1).replace("<\\/", "</"))
    commands = {row["point"]: row["generate_command"] for row in rows(swept / "results.csv")}
    assert {number: point["command"] for number, point in points.items()} == commands
    about = points["1"]["about"]
    assert "point 1" in about and "4 lanes, tile rows 2; " in about and "; ~" in about


def test_the_same_sweep_is_the_same_files(run, swept, tmp_path):
    assert run(*SMALL, "-o", tmp_path)[0] == 0
    for name in ("results.csv", "figures/where.svg", "figures/cycles.png", "report.html"):
        assert (tmp_path / name).read_bytes() == (swept / name).read_bytes(), name


def test_pictures_of_another_sweep_in_the_folder_are_removed(run, tmp_path):
    (tmp_path / "figures").mkdir()
    for name in ("quality.png", "padding.svg", "mine.png"):
        (tmp_path / "figures" / name).write_text("before")
    assert run(*HEAD, "--lanes", "4", "--simulate", "none", "-o", tmp_path)[0] == 0
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert "mine.png" in names and not names & {"quality.png", "padding.svg"}


def test_the_command_of_a_point_generates_it(run, swept, tmp_path):
    row = rows(swept / "results.csv")[0]
    words = row["generate_command"].split()
    code, _, err = run(*words[1:-1], tmp_path / "hardware")
    assert code == 0, err
    assert (tmp_path / "hardware" / "unembed.v").exists()
    config = json.loads((tmp_path / "hardware" / "config.json").read_text())
    assert config["tile_rows"] == int(row["tile_rows"]) and config["k"] == 4


def test_one_point_that_fails_is_told_and_the_others_go_on(run, monkeypatch):
    from host.explore import sweep
    from host.explore.workers import Failure

    def results(self, tasks, quick):
        for number, task in enumerate(tasks):
            yield number, Failure("no compiler") if number == 1 else task.compute()

    monkeypatch.setattr(sweep.Workers, "results", results)
    code, out, err = run(*HEAD, "--tile-rows", "4,16,128", "--simulate", "none")
    assert code == 1
    assert out.startswith("512 x 96: 3 points, ")
    assert "unembed: failed: point 2: area: no compiler" in err


def test_a_config_file_gives_values_that_options_override(run, tmp_path):
    path = tmp_path / "hardware.toml"
    path.write_text("[hardware]\nbus_bits = 128\nfold = 2\nk = 3\n")
    arguments = ("explore", "512x96", "--config", path, "--simulate", "none", "--json")
    (point,) = json.loads(run(*arguments)[1])["points"]
    assert (point["bus_bits"], point["fold"], point["k"]) == (128, 2, 3)
    (point,) = json.loads(run(*arguments, "--lanes", 4)[1])["points"]
    assert (point["bus_bits"], point["fold"]) == (128, 4)


def test_formats_of_a_model_are_judged(run, files):
    np.save(files / "hidden.npy", HIDDEN)
    options = ("--bus-bits", 64, "--weights", "int4,int8", "--group", "row", "--simulate", "none")
    model = (files / "matrix.npz", "--hidden", files / "hidden.npy")
    code, out, err = run("explore", *model, *options, "--json")
    assert code == 0, err
    four, eight = json.loads(out)["points"]
    assert eight["top1_agreement_percent"] == 100 and eight["kl_nats"] < 1e-6
    assert four["kl_nats"] > eight["kl_nats"]
    code, out, _ = run("explore", *model, *options, "-o", files / "out")
    assert "top 1" in out and "KL" in out
    assert (files / "out" / "figures" / "quality.svg").exists()


def test_a_sweep_without_any_area_is_written(run, tmp_path, monkeypatch):
    from host.explore import sweep
    from host.explore.workers import Failure

    def results(self, tasks, quick):
        return ((number, Failure("no design")) for number in range(len(tasks)))

    monkeypatch.setattr(sweep.Workers, "results", results)
    monkeypatch.setenv("UNEMBED_CACHE", str(tmp_path / "cache"))
    code, _, err = run(*HEAD, "--tile-rows", "4,16", "--simulate", "none", "-o", tmp_path)
    assert code == 1
    assert "point 2: area: no design" in err and "Traceback" not in err
    names = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert names == {"roofline"}


@pytest.mark.parametrize(
    "arguments, parts",
    [
        (("explore", "nothing.gguf"), ("nothing.gguf", "no such file")),
        ((*HEAD, "--tile-rows", "16..100"), ("--tile-rows", "got 16..100")),
        ((*HEAD, "--lanes", "4", "--fold", "2"), ("--lanes: follow from --fold",)),
        ((*HEAD, "--neighbours", "-1"), ("--neighbours: must be at least 0",)),
        ((*HEAD, "--neighbours", "1", "--simulate", "all"), ("only with --simulate front",)),
        ((*HEAD, "--hidden", "x.npy"), ("--hidden", "needs a head from a file")),
        ((*HEAD, "--limit", "1"), ("--limit", "only with --hidden")),
        ((*HEAD, "--memory", "sram"), ("--memory", "got sram")),
        ((*HEAD, "--latency", "0"), ("--latency", "must be in 1..")),
        ((*HEAD, "--memory-latency-ns", "9"), ("--memory-latency-ns: is of a DRAM",)),
        ((*HEAD, "--memory-devices", "2"), ("--memory-devices: is of a DRAM",)),
        (
            (*HEAD, "--latency", "9", "--memory", "ddr3-1600-x16,ddr4-2400-x64"),
            ("--latency: is of ideal memory",),
        ),
        ((*HEAD, "--memory-devices", "3"), ("--memory-devices", "power of two")),
        ((*HEAD, "--workers", "0"), ("--workers", "at least 1")),
        ((*HEAD, "-k", "1..256", "--batch", "1..16", "--max-burst", "0"), ("no combination",)),
    ],
)
def test_wrong_usage_is_told_in_a_line(run, arguments, parts):
    code, _, err = run(*arguments)
    assert code in (1, 2)
    assert_one_line(without_progress(err), *parts)


@pytest.mark.parametrize(
    "package, options",
    [("plotly", ("-o", "out")), ("distributed", ("--simulate", "front"))],
)
def test_a_package_that_is_missing_is_told_before_the_sweep(run, monkeypatch, package, options):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == package else find(name)
    )
    code, _, err = run(*SMALL, *options)
    assert code == 1
    assert_one_line(err, f"needs the package {package}", "pip install 'unembed[explore]'")


def test_an_output_that_cannot_be_written_is_told_before_the_sweep(run, tmp_path, monkeypatch):
    monkeypatch.setattr("host.explore.point.estimate", None)
    (tmp_path / "out").write_text("a file")
    code, _, err = run(*SMALL, "-o", tmp_path / "out")
    assert code == 1
    assert_one_line(err, tmp_path / "out", "is a file")
