"""The ECPIX-5's system, simulated, and its host over LiteX's own remote client."""

import socket
import threading
from contextlib import closing, contextmanager

import numpy as np
import pytest

from host.checks.verify import golden_results, mismatches
from host.cli import main
from host.device import Device, DeviceError
from host.devices.litex import open_litex
from host.devices.upload import checksum
from host.driver import Head
from host.errors import UserError
from host.image import save_image
from host.litex.levelling import Setting
from hw.config import HeadConfig
from tests.litex.bandwidth import LEAST_BANDWIDTH, read_bandwidth
from tests.litex.server import CommUART, CommUDP, served
from tests.litex.system import ALWAYS, Simulation, Window, system

pytestmark = pytest.mark.litex

CONFIG = HeadConfig(bus_bits=128, batch=2, k=8, max_dim=256, max_rows=1024)
"""32 multipliers, as on the board; smaller memories."""


@pytest.fixture(scope="module")
def built():
    return system(CONFIG)


@contextmanager
def simulated(built, windows=ALWAYS, link_class=CommUART):
    """The link of a simulation, and the port that its server listens on."""
    with closing(Simulation(built, windows)) as simulation:
        link = link_class(simulation)
        with served(link) as port:
            yield link, port


def opened(built, port):
    return open_litex("localhost", port, built.csr)


@pytest.fixture
def head(tmp_path):
    rng = np.random.default_rng(5)
    weights, scales = rng.integers(-128, 128, (300, 96)), rng.integers(1, 1 << 16, (300, 3))
    image = save_image(tmp_path / "head.safetensors", CONFIG, weights, scales, 1e-6)
    return image, rng.normal(size=(3, 96))


def check_job(device, head):
    image, hidden = head
    results = Head(device, image).run(hidden, 8)
    assert not len(mismatches(results, *golden_results(image, hidden, 8, CONFIG.hidden_bits)))


def test_a_job_is_exact_on_levelled_memory_and_the_image_stays(built, head):
    windows = (Window(2, 3, 6), Window(1, 0, 5, strobe_first=2))
    with simulated(built, windows) as (_, port):
        with opened(built, port) as device:
            assert isinstance(device, Device)
            assert device.settings == (Setting(2, 4, 3, 6), Setting(1, 3, 2, 5))
            check_job(device, head)
            assert [upload.written for upload in device.uploads] == [head[0].channels[0].size]
            # Another client of the same server, while the simulation goes on.
        with opened(built, port) as device:
            assert device.settings == ()
            check_job(device, head)
            assert [upload.written for upload in device.uploads] == [0]


def test_a_job_is_exact_although_datagrams_get_lost(built, head):
    with simulated(built, link_class=CommUDP) as (_, port), opened(built, port) as device:
        check_job(device, head)


def test_data_that_a_datagram_brings_wrong_are_noticed(built):
    with (
        simulated(built, link_class=CommUDP) as (link, port),
        opened(built, port) as device,
    ):
        link.damage = True
        with pytest.raises(DeviceError, match="64 bytes at 0x100 did not arrive"):
            device.write_memory(0x100, np.arange(64, dtype=np.uint8))


def test_the_accelerator_reads_at_550_of_600_megabytes_per_second(built, tmp_path):
    with simulated(built) as (_, port), opened(built, port) as device:
        assert read_bandwidth(device, CONFIG, 600, tmp_path) >= LEAST_BANDWIDTH


def test_the_checksum_is_that_of_the_memory(built):
    with simulated(built) as (_, port), opened(built, port) as device:
        rng = np.random.default_rng(3)
        # Across rows and banks, and with parts of words at the ends.
        base, content = 0x20_0000 - 0x1000, rng.integers(0, 256, 0x2000, np.uint8)
        device.write_memory(base, content)
        for start, size in ((0, 0x2000), (16, 16), (0xFF0, 0x20), (5, 0), (3, 21), (8, 64)):
            part = content[start : start + size]
            assert device.checksum(base + start, size) == checksum(part)
        data = rng.integers(0, 256, 37, np.uint8)
        device.write_memory(base + 0x123, data)
        content[0x123:][:37] = data
        assert (device.read_memory(base + 0x11D, 49) == content[0x11D:][:49]).all()
        assert device.checksum(base, 0x2000) == checksum(content)


def test_another_service_is_not_taken_for_a_server(built):
    with socket.create_server(("localhost", 0)) as listening:

        def answer():
            with listening.accept()[0] as connection:
                connection.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        port = listening.getsockname()[1]
        with pytest.raises(DeviceError, match=rf"^localhost:{port}: no litex_server .* b'SSH-2"):
            opened(built, port)
        thread.join()


def test_a_register_list_that_is_cut_is_told(built, tmp_path):
    csr = tmp_path / "csr.csv"
    lines = built.csr.read_text().splitlines(keepends=True)
    csr.write_text("".join(line for line in lines if "config_clock_frequency" not in line))
    message = "csr.csv: has no constant config_clock_frequency"
    with simulated(built) as (_, port), pytest.raises(UserError, match=message):
        open_litex("localhost", port, csr)


def test_memory_that_cannot_be_levelled_is_an_error_every_time(built):
    with simulated(built, (ALWAYS[0], Window(0, 5, 4))) as (link, port):
        for _ in range(2):
            with pytest.raises(DeviceError, match="byte lane 1 reads right at no setting"):
                opened(built, port)
        link.simulation.plant(ALWAYS)
        opened(built, port).close()


def test_a_wait_ends_by_the_clock_of_the_system(built):
    with simulated(built) as (link, port), opened(built, port) as device:
        before = link.simulation.cycles
        with pytest.raises(TimeoutError, match=r"within 20000 cycles \(CONTROL 0x"):
            device.wait_interrupt(20_000)
        assert 20_000 <= link.simulation.cycles - before < 30_000
        with pytest.raises(ValueError, match="not in the memory"):
            device.read_memory(device.memory_bytes - 8, 16)


def test_the_command_runs_on_it(built, head, tmp_path, capsys):
    image, hidden = head
    states, out = tmp_path / "hidden.npy", tmp_path / "out.npz"
    np.save(states, hidden)
    with simulated(built) as (_, port):
        code = main(
            ["run", str(image.path), "--hidden", str(states), "-k", "8", "--check"]
            + ["--device", f"litex:localhost:{port}", "--csr", str(built.csr), "-o", str(out)]
        )
    assert code == 0
    assert "0 mismatches" in capsys.readouterr().out
    ids = np.load(out)["ids"]
    expected, _ = golden_results(image, hidden, 8, CONFIG.hidden_bits)[:2]
    assert (ids == expected).all()
