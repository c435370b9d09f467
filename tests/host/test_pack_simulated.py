"""Packed model files on the simulated hardware, to the last bit."""

import numpy as np
import pytest

from host.checks.verify import golden_results, mismatches
from host.driver import Head
from host.image import Image
from host.pack import PackOptions, pack
from hw.config import HeadConfig
from sim.device import SimDevice

from .model_files import q4_0, write_gguf

K = 8


def test_q4_0_runs_without_requantisation(tmp_path):
    rng = np.random.default_rng(4)
    weights = rng.integers(-8, 8, (50, 64))
    scales = (rng.integers(-2047, 2048, (50, 2)) * 2.0**-12).astype(np.float16)
    weights[3], scales[3] = -8, -0.5  # +4, beyond what any positive scale of this size gives
    source = write_gguf(tmp_path / "m.gguf", {"output.weight": q4_0(weights, scales)})
    assert pack(source, tmp_path / "h", PackOptions(bus_bits=64)).quantisation.exact
    image = Image(tmp_path / "h")
    assert (image.config.weight_bits, image.config.scale_signed) == (4, True)

    hidden = rng.normal(size=(4, 64))
    hidden[0] = 1
    config = HeadConfig(**image.config_fields, max_dim=64, max_rows=64, k=K)
    with SimDevice(config) as device:
        results = Head(device, image).run(hidden, K)
    assert not len(mismatches(results, *golden_results(image, hidden, K, 16)))
    exact = hidden @ (weights * np.repeat(scales.astype(float), 32, axis=1)).T
    assert (results.ids[:, 0] == exact.argmax(axis=1)).all()
    assert results.ids[0, 0] == 3
    assert results.logits[0, 0] == pytest.approx(4.0 * 64, rel=1e-12)
