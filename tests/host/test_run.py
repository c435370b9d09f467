"""`unembed run`: what it does on a board equals what `simulate` does, and its one-line errors."""

import json
from dataclasses import replace

import numpy as np
import pytest

from host.commands import simulate
from host.devices import open as devices
from host.devices.dma_buffer import DmaBuffer
from host.image import Image
from host.masks import pack_mask

from .command_line import DIM, HIDDEN, ROWS, WEIGHTS, assert_one_line, without_progress
from .fake_device import FakeDevice
from .stand_in import REGISTERS_ADDRESS, StandIn, StandIns

CLOCK = ["--clock-mhz", 0.01]
UIO = ["--device", "uio:unembed0", "--dma-buffer", "udmabuf0"]


@pytest.fixture
def board(files, monkeypatch):
    """Make boards, with a device in plain Python, whose files are in the place of /dev and /sys."""
    made = []

    def make(image="head.safetensors", memory_bytes=1 << 20, **parameters):
        config = replace(Image(files / image).config, **parameters)
        made.append(StandIn(files, FakeDevice(config, memory_bytes), number=len(made)))
        monkeypatch.setattr(devices, "KERNEL", StandIns(made) if len(made) > 1 else made[0])
        return made[-1]

    yield make
    for stand_in in made:
        stand_in.close()


def run_board(run, files, *arguments, hidden="states.npz", image="head.safetensors"):
    options = ["--hidden", files / hidden, *UIO, *CLOCK, *arguments]
    return run("run", files / image, *options)


EVERYTHING = {"batch": 2, "mask": True, "all_logits": True, "logsumexp": True, "k": 8}


def functions(files):
    """Options for everything that a run can be asked for."""
    allowed = np.random.default_rng(2).random((5, ROWS)) < 0.5
    allowed[3] = False
    np.save(files / "mask.npy", pack_mask(allowed))
    np.save(files / "ids.npy", np.array([0, 16, 17, 18, ROWS - 1]))
    return ["--mask", files / "mask.npy", "--ids", files / "ids.npy", "--all-logits"] + [
        "--logsumexp", "--temperature", 20, "-k", 6, "--check",
    ]  # fmt: skip


def saved(files):
    with np.load(files / "out.npz") as arrays:
        return dict(arrays)


# Results.


@pytest.mark.parametrize("everything", [False, True], ids=["plain", "all functions"])
def test_a_board_gives_what_simulate_gives(run, files, board, monkeypatch, everything):
    parameters = EVERYTHING if everything else {"k": 8}
    options = functions(files) if everything else ["-k", 6, "--check"]
    options += ["-o", files / "out.npz", "--json"]
    kernel = board(**parameters)

    class Device(FakeDevice):
        def __init__(self, config, memory, clock_hz, progress):
            super().__init__(kernel.machine.config)

    monkeypatch.setattr(simulate, "SimDevice", Device)
    batch = ["--batch", 2] if everything else []
    image, states = files / "head.safetensors", files / "states.npz"
    code, out, _ = run("simulate", image, "--hidden", states, *CLOCK, *options, *batch)
    assert code == 0
    expected, expected_arrays = json.loads(out), saved(files)
    code, out, _ = run_board(run, files, *options)
    assert code == 0
    found, found_arrays = json.loads(out), saved(files)
    assert found["check"]["compared"] == 5 * 6 and found["check"]["mismatches"] == 0
    for own in ("device", "upload", "config", "seconds"):
        found.pop(own)
    for own in ("config", "latency_cycles", "memory", "read_buffer", "seconds"):
        expected.pop(own)
    for report in (found, expected):
        for name in ("limits_gigabytes_per_second", "shares_of_limits"):
            report["figures"][name].pop("memory", None)  # a board does not tell it
    assert found == expected
    assert found_arrays.keys() == expected_arrays.keys()
    for name, values in expected_arrays.items():
        assert np.array_equal(found_arrays[name], values), name


def test_the_hardware_is_what_its_registers_tell(run, files, board):
    board(k=9, batch=2, logsumexp=True)
    code, out, _ = run_board(run, files, "--json")
    assert code == 0
    report = json.loads(out)
    assert report["k"] == 9
    config = {"k": 9, "batch": 2, "logsumexp": True, "mask": False, "bus_bits": 64, "group": 0}
    assert report["config"] | config == report["config"]
    assert "max_burst" not in report["config"]  # no register tells it
    assert [state["job"] for state in report["results"]] == [0, 0, 1, 1, 2]
    assert report["device"].endswith("/dev/uio0")


def test_a_wrong_result_fails_the_check(run, files, board):
    kernel = board()
    answer = kernel.machine._records
    kernel.machine._records = lambda ids, scores, *rest: answer(ids, scores + 1, *rest)
    code, out, err = run_board(run, files, "-k", 4, "--check")
    assert code == 1
    assert "golden model: 20 places compared, 20 mismatches" in out
    assert "mismatch: state 0, rank 0" in err


def test_shards_run_on_a_board_each(run, files, board):
    packed = ["pack", files / "matrix.npz", "--bus-bits", 64, "--group", "row", "-o"]
    shards = [files / "part0.safetensors", files / "part1.safetensors"]
    for shard, rows in zip(shards, (":20", "20:"), strict=True):
        assert run(*packed, shard, "--rows", rows)[0] == 0
        board(shard.name)
    options = [*CLOCK, "-k", 6, "--check", "--json"]
    for number in range(2):
        options += ["--device", f"uio:uio{number}", "--dma-buffer", f"udmabuf{number}"]
    code, out, _ = run("run", *shards, "--hidden", files / "states.npz", *options)
    assert code == 0
    report = json.loads(out)
    assert report["check"] == {"compared": 30, "mismatches": 0}
    assert [shard["rows"] for shard in report["shards"]] == [20, 25]
    assert [shard["device"][-5:] for shard in report["shards"]] == ["/uio0", "/uio1"]


def test_the_clock_of_the_figures_is_the_boards(run, files, board, monkeypatch):
    board()
    # The stand-in is slower than the board.
    monkeypatch.setattr("host.driver.Head.deadline", lambda *_: 10**11)
    options = ["--hidden", files / "states.npz", *UIO, "--board", "kv260", "--json"]
    code, out, _ = run("run", files / "head.safetensors", *options)
    assert code == 0
    mhz = devices.board("kv260").clock.mhz
    assert json.loads(out)["figures"]["clock_mhz"] == mhz


def test_registers_in_the_address_space_are_polled(run, files, board):
    board()
    options = ["--device", f"mem:{REGISTERS_ADDRESS:#x}", "--dma-buffer", "udmabuf0", *CLOCK]
    options += ["--hidden", files / "states.npz", "--check"]
    code, out, _ = run("run", files / "head.safetensors", *options)
    assert code == 0
    assert "0 mismatches" in out


# The image.


def test_an_image_is_uploaded_once_and_found_by_the_next_run(run, files, board):
    board()
    size = Image(files / "head.safetensors").channels[0].size
    _, out, err = run_board(run, files)
    assert f"image uploaded, {size:,} bytes written, verified\n" in out
    assert [line for line in err.splitlines() if line.endswith("image")] == [
        "checking image",
        "uploading image",
        "verifying image",
    ]
    _, out, err = run_board(run, files)
    assert "image found in memory, verified\n" in out
    assert "uploading" not in err
    _, out, _ = run_board(run, files, "--json")
    assert json.loads(out)["upload"] == {"bytes": size, "written": 0}


def test_another_image_takes_the_place_of_the_first(run, files, board):
    board()
    run_board(run, files)
    np.savez(files / "other.npz", weight=WEIGHTS[::-1].astype(np.float32))
    other = files / "other.safetensors"
    packed = ["pack", files / "other.npz", "-o", other, "--bus-bits", 64, "--group", "row"]
    assert run(*packed)[0] == 0
    code, out, _ = run_board(run, files, "--check", image="other.safetensors")
    assert code == 0
    assert "bytes written, verified" in out and "0 mismatches" in out


def test_a_memory_that_loses_bytes_is_told_in_one_line(run, files, board):
    kernel = board()
    maintain = kernel._maintain
    kernel._maintain = lambda name, direction, offset, size: (
        maintain(name, direction, offset, size) if name == "for_cpu" else None
    )
    code, out, err = run_board(run, files)
    assert (code, out) == (1, "")
    assert_one_line(without_progress(err), "uio0: memory does not keep what is written to it")


# What cannot be run.


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--mask", "mask.npy"], ["--mask: ", "was built without mask: build it with --mask"]),
        (["--all-logits"], ["was built without all_logits: build it with --all-logits"]),
        (["--logsumexp"], ["was built without logsumexp: build it with --logsumexp"]),
    ],
)
def test_a_function_that_is_not_built_is_told_before_the_upload(
    run, files, board, arguments, parts
):
    kernel = board()
    np.save(files / "mask.npy", pack_mask(np.ones((5, ROWS), bool)))
    given = [files / text if text.endswith(".npy") else text for text in arguments]
    code, out, err = run_board(run, files, *given)
    assert (code, out, kernel.syncs) == (1, "", [])
    assert_one_line(err, "/dev/uio0", *parts)


def test_more_results_than_the_hardware_has_are_a_usage_error(run, files, board):
    kernel = board(k=8)
    code, _, err = run_board(run, files, "-k", 9)
    assert (code, kernel.syncs) == (2, [])
    assert_one_line(err, "-k: must be in 1..8 on ", "/dev/uio0", "found 9")


def test_an_image_of_another_format_is_refused_before_the_upload(run, files, board):
    kernel = board()
    other = files / "int4.safetensors"
    packed = ["pack", files / "matrix.npz", "-o", other, "--bus-bits", 64, "--weight-bits", 4]
    assert run(*packed)[0] == 0
    code, _, err = run_board(run, files, image="int4.safetensors")
    assert (code, kernel.syncs) == (1, [])
    assert_one_line(err, "int4.safetensors: was packed with weight_bits 4", "was built with 8")


def test_a_buffer_that_is_too_small_names_both_sizes(run, files, board):
    board(memory_bytes=4096)
    code, _, err = run_board(run, files)
    assert code == 1
    assert_one_line(err, "head.safetensors: needs", "uio0 has 4096")


def test_a_device_in_use_is_busy(run, files, board):
    kernel = board()
    buffer = DmaBuffer("udmabuf0", kernel)
    code, _, err = run_board(run, files)
    assert code == 1
    assert_one_line(err, "udmabuf0: device busy")
    buffer.close()
    assert run_board(run, files)[0] == 0


def test_no_accelerator_at_the_address_is_an_error(run, files, board):
    board().machine.registers["MAGIC"] = 0xFFFF_FFFF
    code, _, err = run_board(run, files)
    assert code == 1
    assert_one_line(err, "uio0: no unembed accelerator, MAGIC is 0xffffffff")


def test_a_job_that_hangs_is_an_error_with_the_status(run, files, board, monkeypatch):
    kernel = board()
    kernel.machine.hang = True
    monkeypatch.setattr("host.driver.Head.deadline", lambda *_: 10)
    code, _, err = run_board(run, files)
    assert code == 1
    line = without_progress(err)
    assert_one_line(line, "uio0: job 1 did not end within 10 clocks (CONTROL 0x0")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--device", "uio0"], ["--device: has no known form", "mem:ADDRESS", "found uio0"]),
        (["--device", "pci:3"], ["--device: has no known form", "found pci:3"]),
        (["--device", "uio:"], ["--device: has no known form", "found uio:"]),
        (["--device", "mem:0xa0000004"], ["must be a multiple of 4096", "mem:0xa0000004"]),
        (["--device", "mem:here"], ["must be a multiple of 4096", "found mem:here"]),
        (["--device", "mem:-4096"], ["must be a multiple of 4096", "found mem:-4096"]),
        (["--device", "uio:uio0", *CLOCK], ["--dma-buffer: is needed for --device uio:uio0"]),
        (["--device", "litex:board"], ["--csr: is needed for --device litex:board"]),
        *(
            (["--device", f"litex:{where}", "--csr", "csr.csv"], ["--device: ", part])
            for where, part in {
                ":1234": "is no address (expected litex:HOST[:PORT], found litex::1234)",
                "board:": "is no address (expected litex:HOST[:PORT], found litex:board:)",
                "board:0": "found litex:board:0)",
                "board:70000": "found litex:board:70000)",
                "board:x": "found litex:board:x)",
            }.items()
        ),
        (UIO, ["--clock-mhz: or --board is needed: uio cannot tell the clock"]),
        ([*UIO, "--board", "generic"], ["--board: generic has no clock of its own"]),
        ([*UIO, *CLOCK, *UIO], ["--device: one is needed for each image (expected 1, found 2)"]),
        ([*UIO, *CLOCK, "--dma-buffer", "b"], ["--dma-buffer: is of no device (found b)"]),
        ([*UIO, *CLOCK, "--csr", "csr.csv"], ["--csr: is of no device (found csr.csv)"]),
        (
            ["--device", "litex:board", "--csr", "csr.csv", *CLOCK],
            ["--clock-mhz: is of no use with litex, which tells the clock"],
        ),
        (
            ["--device", "litex:board", "--csr", "csr.csv", "--board", "ecpix5"],
            ["--board: is of no use with litex, which tells the clock"],
        ),
        (
            ["--device", "litex:a:\u0661", "--csr", "csr.csv"],
            ["--device: is no address (expected litex:HOST[:PORT], found litex:a:"],
        ),
        ([*UIO, "--clock-mhz", 0], ["--clock-mhz: must be a number from 0.001"]),
        ([*UIO, *CLOCK, "--board", "kv260"], ["not allowed with argument --clock-mhz"]),
        ([*UIO, "--board", "none"], ["--board: invalid choice: 'none'"]),
        ([], ["--device"]),
        ([*UIO, *CLOCK, "-k", 0], ["-k: must be in 1..256 (found 0)"]),
        ([*UIO, *CLOCK, "--limit", 0], ["--limit: must be at least 1"]),
        ([*UIO, *CLOCK, "--temperature", 2], ["--temperature: is of use only with --logsumexp"]),
    ],
)
def test_an_option_that_cannot_be_is_a_usage_error(run, files, options, parts):
    hidden = ["--hidden", files / "states.npz"]
    code, out, err = run("run", files / "head.safetensors", *hidden, *options)
    assert (code, out) == (2, "")
    assert_one_line(err, *parts)


def test_states_that_do_not_fit_name_their_file(run, files, board):
    board()
    np.save(files / "wide.npy", np.zeros((2, DIM + 1)))
    code, _, err = run_board(run, files, hidden="wide.npy")
    assert code == 1
    assert_one_line(err, "wide.npy", f"[N, {DIM}]", f"[2, {DIM + 1}]")


def test_no_input_is_overwritten(run, files, board):
    board()
    code, _, err = run_board(run, files, "-o", files / "states.npz")
    assert code == 1
    assert_one_line(err, "states.npz: would overwrite the hidden states")
    assert np.array_equal(np.load(files / "states.npz")["hidden"], HIDDEN)


def test_the_register_list_is_not_overwritten(run, files):
    csr = files / "csr.npz"
    csr.write_text("csr_base,a,0,,\n")
    options = ["--hidden", files / "states.npz", "--device", "litex:a", "--csr", csr, "-o", csr]
    code, _, err = run("run", files / "head.safetensors", *options)
    assert code == 1
    assert_one_line(err, "csr.npz: would overwrite the register list")


def test_a_system_is_not_taken_for_two_shards(run, files):
    head = files / "head.safetensors"
    litex = ["--device", "litex:a", "--csr", "a.csv", "--device", "litex:a:1234", "--csr", "b.csv"]
    code, _, err = run("run", head, head, "--hidden", files / "states.npz", *litex)
    assert code == 2
    assert_one_line(err, "--device: is there twice", "found litex:a:1234")
