import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from host import pack as pack_module
from host.errors import UserError
from host.image import Image, tiles
from host.pack import PackOptions, pack

from .model_files import q4_0, q8_0, random_matrix, write_bf16, write_gguf, write_model

OPTIONS = PackOptions(bus_bits=64)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Several chunks even for tiny matrices."""
    monkeypatch.setattr(tiles.row_chunks, "__defaults__", (4096,))


def head(path, name="output.weight", **keywords):
    return write_gguf(path / "m.gguf", {name: keywords.pop("data")}, **keywords)


def random_q8_0(rows=150, dim=96, seed=0):
    rng = np.random.default_rng(seed)
    weights = rng.integers(-128, 128, (rows, dim))
    scales = (rng.integers(1, 2048, (rows, dim // 32)) * 2.0**-18).astype(np.float16)
    return weights, scales


def pack_to(tmp_path, source, options=OPTIONS):
    report = pack(source, tmp_path / "head.safetensors", options)
    image = Image(tmp_path / "head.safetensors")
    image.verify()
    return report, image


def test_q8_0_is_packed_exactly_by_default(tmp_path):
    weights, scales = random_q8_0()
    source = head(tmp_path, data=q8_0(weights, scales), hidden=96)
    report, image = pack_to(tmp_path, source, PackOptions())
    stored, stored_scales = image.read_rows(0, 150)
    assert np.array_equal(stored, weights)
    assert np.array_equal(stored_scales * image.weight_scale, scales)
    assert report.quantisation.exact
    assert np.log2(image.weight_scale) % 1 == 0
    fields = {"weight_bits": 8, "scale_bits": 16, "scale_signed": False, "group": 32}
    assert fields.items() <= report.config.items()
    assert report.lines()[3].endswith("exact")


def test_q4_0_is_packed_exactly_by_default(tmp_path):
    rng = np.random.default_rng(3)
    weights = rng.integers(-8, 8, (70, 64))
    scales = (rng.integers(-2047, 2048, (70, 2)) * 2.0**-16).astype(np.float16)
    source = head(tmp_path, data=q4_0(weights, scales))
    report, image = pack_to(tmp_path, source)
    assert report.quantisation.exact
    assert (image.config.weight_bits, image.config.scale_signed) == (4, True)
    stored, stored_scales = image.read_rows(0, 70)
    assert np.array_equal(stored, weights)
    assert np.array_equal(stored_scales * image.weight_scale, scales)


def test_q4_0_is_packed_exactly_for_eight_bit_hardware(tmp_path):
    weights = np.array([[-8] * 16 + [7] * 16, [-8] * 16 + [3] * 16])
    source = head(tmp_path, data=q4_0(weights, np.array([[-0.5], [0.25]])))
    report, image = pack_to(tmp_path, source, PackOptions(weight_bits=8))
    assert report.quantisation.exact
    assert not image.config.scale_signed
    expected = [[4.0] * 16 + [-3.5] * 16, [-2.0] * 16 + [0.75] * 16]
    assert image.dequantise(0, 2).tolist() == expected


def test_scales_that_do_not_fit_are_requantised_and_reported(tmp_path):
    weights, scales = random_q8_0()
    scales[0, 0], scales[149, 2] = 2.0**-20, 1.0
    source = head(tmp_path, data=q8_0(weights, scales))
    report, image = pack_to(tmp_path, source)
    assert not report.quantisation.exact
    assert report.quantisation.note == "scales need 21 bits, 16 are stored"
    assert "requantised (scales need 21 bits, 16 are stored): RMS relative error" in str(report)
    assert image.quantisation == report.quantisation
    exact = weights * np.repeat(scales.astype(float), 32, axis=1)
    errors = image.dequantise(0, 150) - exact
    assert report.quantisation.max_absolute_error == pytest.approx(np.abs(errors).max(), rel=1e-3)
    assert np.abs(errors).max() < 1.0


@pytest.mark.parametrize(
    ("options", "note"),
    [
        (PackOptions(group=64), "groups of 32 do not make groups of 64"),
        (PackOptions(group=0), "groups of 32 do not make whole rows"),
        (PackOptions(weight_bits=4), "weights of 8 bits do not fit 4"),
        (PackOptions(scale_bits=8), "scales need 11 bits, 8 are stored"),
    ],
)
def test_q8_0_is_requantised_to_other_formats(tmp_path, options, note):
    weights, scales = random_q8_0()
    scales[0, 0], scales[1, 0] = 2047 * 2.0**-18, 2.0**-18
    report, image = pack_to(tmp_path, head(tmp_path, data=q8_0(weights, scales)), options)
    assert report.quantisation.note == note
    exact = weights * np.repeat(scales.astype(float), 32, axis=1)
    errors = image.dequantise(0, 150) - exact
    rms = np.sqrt((errors**2).sum() / (exact**2).sum())
    assert report.quantisation.rms_relative_error == pytest.approx(rms, rel=1e-3)
    assert rms < (0.12 if options.weight_bits == 4 else 0.02)


def test_q8_0_is_packed_exactly_for_sixteen_bit_hardware(tmp_path):
    weights, scales = random_q8_0()
    weights[3, 4], scales[3, 0] = -128, -scales[3, 0]
    source = head(tmp_path, data=q8_0(weights, scales))
    report, image = pack_to(tmp_path, source, PackOptions(weight_bits=16))
    assert report.quantisation.exact
    assert not image.config.scale_signed
    exact = weights * np.repeat(scales.astype(float), 32, axis=1)
    assert np.array_equal(image.dequantise(0, 150), exact)


@pytest.mark.parametrize("group", [None, 32, 64, 0])
@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_small_integers_are_packed_as_they_are(tmp_path, group, dtype):
    rng = np.random.default_rng(1)
    info = np.iinfo(dtype)
    weights = rng.integers(info.min, info.max, (77, 45), dtype, endpoint=True)
    np.save(tmp_path / "w.npy", weights)
    report, image = pack_to(tmp_path, tmp_path / "w.npy", PackOptions(bus_bits=64, group=group))
    stored, scales = image.read_rows(0, 77)
    assert np.array_equal(stored, weights)
    assert image.config.weight_bits == info.bits
    assert (scales == 1).all()
    assert image.weight_scale == 1.0
    assert report.quantisation.exact


@pytest.mark.parametrize("weight_bits", [4, 8, 16])
@pytest.mark.parametrize("group", [32, 64, 128, 0])
@pytest.mark.parametrize(("scale_bits", "scale_signed"), [(8, False), (16, True)])
def test_floats_are_quantised_within_half_a_step(
    tmp_path, weight_bits, group, scale_bits, scale_signed
):
    values = random_matrix(130, 150)
    np.save(tmp_path / "w.npy", values)
    options = PackOptions(
        weight_bits=weight_bits, group=group, scale_bits=scale_bits, scale_signed=scale_signed
    )
    report, image = pack_to(tmp_path, tmp_path / "w.npy", options)
    weights, scales = image.read_rows(0, 130)
    assert image.config.group == group
    columns = group or 150
    steps = np.repeat(scales, columns, axis=1)[:, :150] * image.weight_scale
    errors = np.abs(weights * steps - values)
    clipped = np.abs(weights) == 2 ** (weight_bits - 1) - 1
    assert (errors <= steps / 2 * (1 + 1e-9))[~clipped].all()
    assert report.quantisation.max_absolute_error == pytest.approx(errors.max(), rel=1e-12)
    assert scales.max() == 2 ** (scale_bits - scale_signed) - 1


def test_every_container_gives_the_same_integers(tmp_path):
    values = (random_matrix(90, 64).view(np.uint32) & 0xFFFF0000).view(np.float32)  # exact in BF16
    np.save(tmp_path / "w.npy", values)
    np.save(tmp_path / "f.npy", np.asfortranarray(values))
    np.savez_compressed(tmp_path / "w.npz", weight=values)
    sources = [
        tmp_path / "w.npy",
        tmp_path / "f.npy",
        tmp_path / "w.npz",
        write_bf16(tmp_path / "w.safetensors", "lm_head.weight", values),
        write_model(tmp_path / "m", {"lm_head.weight": values}, {"hidden_size": 64}),
        head(tmp_path, data=(values, None)),
    ]
    images = []
    for source in sources:
        _, image = pack_to(tmp_path, source)
        images.append((image.weight_scale, b"".join(map(bytes, image.channels))))
    assert all(image == images[0] for image in images)


def test_sixteen_bits_hold_a_bf16_head_far_more_precisely_than_eight(tmp_path):
    source = write_bf16(tmp_path / "w.safetensors", "lm_head.weight", random_matrix(500, 96))
    errors = {}
    for bits in (8, 16):
        report, _ = pack_to(tmp_path, source, PackOptions(weight_bits=bits))
        errors[bits] = report.quantisation.rms_relative_error
    assert errors[16] < errors[8] / 200
    assert errors[16] < 3e-5


@pytest.mark.parametrize("tile_rows", [8, 16, 120, 1024])
@pytest.mark.parametrize("channels", [1, 4])
def test_tiles_of_any_size_hold_the_same_rows(tmp_path, tile_rows, channels):
    values = random_matrix(200, 96)
    np.save(tmp_path / "w.npy", values)
    options = PackOptions(bus_bits=64, width=1, tile_rows=tile_rows, channels=channels)
    report, image = pack_to(tmp_path, tmp_path / "w.npy", options)
    _, reference = pack_to(tmp_path, tmp_path / "w.npy", PackOptions())
    assert (image.config.tile_rows, image.config.channels) == (tile_rows, channels)
    assert (", on 4 channels" in str(report)) == (channels == 4)
    for found, expected in zip(image.read_rows(0, 200), reference.read_rows(0, 200), strict=True):
        assert np.array_equal(found, expected)


def test_a_transposed_head_does_not_pass(tmp_path):
    weights = np.zeros((4, 4), np.int8)
    weights[2, 0], weights[0, 3] = 5, 7
    for dtype, tolerance in ((np.int8, 0), (np.float32, 1e-4)):
        np.save(tmp_path / "w.npy", weights.astype(dtype))
        _, image = pack_to(tmp_path, tmp_path / "w.npy")
        logits = image.dequantise(0, 4)[:, 0]
        assert logits.argmax() == 2
        assert logits[2] == pytest.approx(5, abs=tolerance)


def test_a_zero_row_and_a_tiny_row_keep_their_meaning(tmp_path, recwarn):
    values = -np.abs(random_matrix(6, 32)) - 0.1
    values[3], values[4] = 0, 1e-6
    np.save(tmp_path / "w.npy", values)
    _, image = pack_to(tmp_path, tmp_path / "w.npy")
    weights, scales = image.read_rows(0, 6)
    assert not recwarn.list
    assert not weights[3].any()
    assert scales[4] > 0


def test_an_all_zero_matrix_is_packed(tmp_path):
    np.save(tmp_path / "w.npy", np.zeros((3, 5), np.float32))
    report, image = pack_to(tmp_path, tmp_path / "w.npy")
    assert not image.dequantise(0, 3).any()
    assert report.quantisation.rms_relative_error == 0


def test_a_matrix_of_one_value_is_packed(tmp_path):
    np.save(tmp_path / "w.npy", np.array([[-3.0]]))
    _, image = pack_to(tmp_path, tmp_path / "w.npy")
    assert image.dequantise(0, 1).tolist() == [[-3.0]]


def test_rows_past_the_tokenizer_are_left_out_unless_asked_for(tmp_path):
    source = head(tmp_path, data=(random_matrix(10, 32), None), tokens=list("abcdefg"))
    report, image = pack_to(tmp_path, source)
    assert (image.rows, report.rows, report.source.rows, report.source.vocabulary) == (7, 7, 10, 7)
    assert "3 rows past the vocabulary left out" in str(report)
    report, image = pack_to(tmp_path, source, PackOptions(keep_rows=True))
    assert image.rows == 10
    assert "left out" not in str(report)


def test_rows_that_are_left_out_do_not_set_the_scale(tmp_path):
    values = random_matrix(10, 32)
    values[8] = 1e6
    source = head(tmp_path, data=(values, None), tokens=list("abcdefg"))
    _, image = pack_to(tmp_path, source)
    assert np.abs(image.dequantise(0, 7) - values[:7]).max() < 0.02


@pytest.mark.parametrize("kind", ["float", "q8_0"])
def test_what_is_not_finite_leaves_no_image(tmp_path, kind):
    if kind == "float":
        values = random_matrix(150, 96)
        values[133, 3] = np.nan
        source = head(tmp_path, data=(values, None))
    else:
        weights, scales = random_q8_0()
        scales[133, 1] = np.inf
        source = head(tmp_path, data=q8_0(weights, scales))
    with pytest.raises(ValueError, match=r"m\.gguf: tensor output\.weight: row 133 "):
        pack(source, tmp_path / "head.safetensors", OPTIONS)
    assert os.listdir(tmp_path) == ["m.gguf"]


def test_an_interrupt_leaves_no_image(tmp_path):
    np.save(tmp_path / "w.npy", random_matrix(150, 96))

    def interrupt(done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(tmp_path / "w.npy", tmp_path / "head.safetensors", OPTIONS, interrupt)
    assert os.listdir(tmp_path) == ["w.npy"]


def test_progress_rises_to_its_total(tmp_path):
    np.save(tmp_path / "w.npy", random_matrix(150, 96))
    calls = []
    pack(
        tmp_path / "w.npy",
        tmp_path / "head.safetensors",
        OPTIONS,
        lambda done, total: calls.append((done, total)),
    )
    done = [call[0] for call in calls]
    assert done == sorted(set(done))
    assert len(done) > 4
    assert calls[-1] == (300, 300)


def test_the_image_says_where_it_comes_from(tmp_path):
    weights, scales = random_q8_0()
    data, kind = q8_0(weights, scales)
    source = head(tmp_path, name="token_embd.weight", data=(data, kind), tokens=["a"] * 200)
    report, image = pack_to(tmp_path, source)
    assert image.source == report.source
    assert image.source.file == "m.gguf"
    assert (image.source.tensor, image.source.dtype) == ("token_embd.weight", "Q8_0")
    assert (image.source.tied, image.source.vocabulary, image.source.rows) == (True, 200, 150)
    assert image.source.sha256 == hashlib.sha256(source.read_bytes()).hexdigest()
    assert image.source.tensor_sha256 == hashlib.sha256(data.tobytes()).hexdigest()


def test_the_report_is_json_and_has_a_line_for_everything(tmp_path):
    np.save(tmp_path / "w.npy", random_matrix(64, 32))
    report, image = pack_to(tmp_path, tmp_path / "w.npy", PackOptions())
    plain = json.loads(json.dumps(report.as_dict()))
    assert plain["image_bytes"] == image.layout.bytes
    assert plain["file_bytes"] == image.path.stat().st_size
    assert plain["bits_per_weight"] == 8.5
    text = str(report)
    for part in ("w (float32) of w.npy", "64 rows x 32 columns", "int8 in groups of 32"):
        assert part in text
    assert "8.50 bits per weight, quantised: RMS relative error 0.00" in text
    assert f"{image.layout.bytes:,} bytes in {image.path}" in text


def test_packing_twice_gives_the_same_bytes(tmp_path):
    np.save(tmp_path / "w.npy", random_matrix(150, 96))
    for name in ("a", "b"):
        pack(tmp_path / "w.npy", tmp_path / name, OPTIONS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (PackOptions(width=64), r"width must be a power of two in 1\.\.32, got 64"),
        (PackOptions(group=16), r"group must be one of 32, 64, 128, 0, got 16"),
        (PackOptions(tile_rows=3), r"tile_rows must be a multiple of units \(2\)"),
    ],
)
def test_options_out_of_range_are_named(tmp_path, options, message):
    np.save(tmp_path / "w.npy", random_matrix(4, 4))
    with pytest.raises(UserError, match=rf"^--\w+(-\w+)?: {message}.*int8 weights of .*w\.npy"):
        pack(tmp_path / "w.npy", tmp_path / "head.safetensors", options)
    assert os.listdir(tmp_path) == ["w.npy"]


def test_a_model_is_never_overwritten(tmp_path):
    source = tmp_path / "m" / "model.safetensors"
    write_model(source.parent, {"lm_head.weight": random_matrix(4, 4)})
    before = source.read_bytes()
    with pytest.raises(UserError, match=r"would overwrite the model"):
        pack(source, source)
    assert source.read_bytes() == before


def test_a_digest_that_fails_fails_the_packing(tmp_path, monkeypatch):
    np.save(tmp_path / "w.npy", random_matrix(4, 4))

    def fail(*_):
        raise UserError("w.npy", "the file is cut short")

    monkeypatch.setattr(pack_module.HeadSource, "digests", fail)
    with pytest.raises(UserError, match="cut short"):
        pack(tmp_path / "w.npy", tmp_path / "head.safetensors", OPTIONS)
    assert os.listdir(tmp_path) == ["w.npy"]


MEASURE = """
import resource, sys
from pathlib import Path
from host.pack import pack
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
pack(Path(sys.argv[1]), Path(sys.argv[2]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors", "gguf"])
def test_memory_does_not_grow_with_the_matrix(tmp_path, kind):
    values = np.zeros((40960, 1024), np.float16 if kind in ("npy", "npz") else np.float32)
    values[::7, ::3] = 1
    path = tmp_path / f"w.{kind}"
    if kind == "npy":
        np.save(path, values)
    elif kind == "npz":
        np.savez_compressed(path, weight=values)
    elif kind == "safetensors":
        write_bf16(path, "lm_head.weight", values)
    else:
        weights = np.ones((40960, 1024), np.int8)
        write_gguf(path, {"output.weight": q8_0(weights, np.ones((40960, 32)))})
    command = [sys.executable, "-c", MEASURE, path, tmp_path / "head.safetensors"]
    grown = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert grown < 40 * 1024, f"{grown} KiB for a matrix of {path.stat().st_size >> 10} KiB"
