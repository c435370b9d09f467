import hashlib
import json
import os

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from host.errors import UserError
from host.image import Image, ImageWriter, SourceInfo, save_image
from host.image import image as image_module
from host.image.quantize import EXACT
from host.image.summary import describe
from host.sampling import LogitTransform
from hw.config import HeadConfig

CONFIG = HeadConfig(bus_bits=64, group=32, width=4, tile_rows=4)
WIDE = HeadConfig(
    bus_bits=64, group=32, width=2, tile_rows=4, weight_bits=16, channels=4, bias=True, bound=True
)
SOURCE = SourceInfo("m.gguf", "output.weight", "Q8_0", 12, False, 11, "ab", "cd")


def random_integers(rows=11, dim=40, groups=2, seed=0):
    rng = np.random.default_rng(seed)
    weights = rng.integers(-128, 128, (rows, dim))
    return weights, rng.integers(0, 65536, (rows, groups))


@pytest.fixture
def saved(tmp_path):
    return save_image(tmp_path / "head.safetensors", CONFIG, *random_integers(), 0.125, SOURCE)


def random_wide(rows=11, seed=0):
    """Weights of 16 bits, scales and terms for `WIDE`."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(-32768, 32768, (rows, 40))
    terms = rng.integers(-32768, 32768, (rows, 2))
    return weights, rng.integers(0, 65536, (rows, 2)), terms


@pytest.fixture
def wide(tmp_path):
    weights, scales, terms = random_wide()
    return save_image(
        tmp_path / "wide.safetensors",
        WIDE,
        weights,
        scales,
        0.125,
        SOURCE,
        terms=terms,
        bias_unit=0.5,
        bound_unit=0.25,
    )


def rewrite(path, change):
    """Change the decoded header of an image and write it back."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode().ljust(length)
    path.write_bytes(data[:8] + text + data[8 + length :])


def test_an_image_gives_back_what_was_saved(saved):
    weights, scales = random_integers()
    found = saved.read_rows(0, 11)
    assert np.array_equal(found[0], weights)
    assert np.array_equal(found[1], scales)
    found = saved.read_rows(3, 9)
    assert np.array_equal(found[0], weights[3:9])
    assert np.array_equal(found[1], scales[3:9])
    assert (saved.rows, saved.dim, saved.weight_scale) == (11, 40, 0.125)
    assert saved.config_fields == CONFIG.image_fields()
    assert saved.source == SOURCE
    assert saved.quantisation == EXACT
    assert [data.size for data in saved.channels] == [saved.layout.bytes]
    assert (saved.bias_unit, saved.bound_unit) == (1.0, 1.0)


def test_an_image_of_several_channels_gives_back_what_was_saved(wide):
    weights, scales, terms = random_wide()
    for start, stop in ((0, 11), (3, 9), (5, 5)):
        found = wide.read_rows(start, stop)
        assert found[0].dtype == np.int16
        assert np.array_equal(found[0], weights[start:stop])
        assert np.array_equal(found[1], scales[start:stop])
        assert np.array_equal(wide.read_terms(start, stop), terms[start:stop])
        assert np.array_equal(wide.bias(start, stop), terms[start:stop, 0] * 0.5)
        assert np.array_equal(wide.bound(start, stop), terms[start:stop, 1] * 0.25)
    # Tiles of 4 rows: the third is the last one, and the fourth channel has none.
    assert [data.size > 0 for data in wide.channels] == [True, True, True, False]
    assert [data.size for data in wide.channels] == list(map(wide.layout.channel_bytes, range(4)))


def test_every_channel_starts_on_a_page_and_is_mapped_read_only(wide):
    for data in wide.channels:
        assert not data.flags.writeable
        if data.size:
            assert isinstance(data, np.memmap)
            assert data.offset % 4096 == 0


def test_an_image_without_terms_has_zero_bias_and_bound(saved):
    assert saved.read_terms(2, 9).shape == (7, 0)
    assert not saved.bias(2, 9).any()
    assert not saved.bound(2, 9).any()
    for read in (saved.read_terms, saved.bias, saved.bound):
        with pytest.raises(IndexError, match=r"rows must be in 0\.\.11"):
            read(3, 12)


def test_weights_are_integer_times_scale_times_weight_scale(saved):
    weights, scales = random_integers()
    expected = weights * np.repeat(scales, 32, axis=1)[:, :40] * 0.125
    assert np.array_equal(saved.dequantise(2, 7), expected[2:7].astype(np.float32))


def test_the_data_are_mapped_not_loaded_and_read_only(saved):
    (data,) = saved.channels
    assert isinstance(data, np.memmap)
    assert data.offset % 4096 == 0
    assert not data.flags.writeable


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 2), (0, 12)])
def test_rows_out_of_range_are_refused(saved, start, stop):
    with pytest.raises(IndexError, match=r"rows must be in 0\.\.11"):
        saved.read_rows(start, stop)


def test_the_safetensors_library_reads_an_image(saved, wide):
    for image, padding in ((saved, []), (wide, ["padding1", "padding2"])):
        with safe_open(image.path, "np") as file:
            images = [f"image{channel}" for channel in range(image.config.channels)]
            assert sorted(file.keys()) == images + padding
            for name, data in zip(images, image.channels, strict=True):
                assert np.array_equal(file.get_tensor(name), data)
            assert not any(file.get_tensor(name).any() for name in padding)
    with safe_open(saved.path, "np") as file:
        metadata = file.metadata()
    assert metadata["format"] == "unembed-image"
    assert json.loads(metadata["config"]) == CONFIG.image_fields()
    assert json.loads(metadata["source"])["tensor"] == "output.weight"


def test_the_same_arrays_give_the_same_bytes(tmp_path, saved):
    again = save_image(tmp_path / "b.safetensors", CONFIG, *random_integers(), 0.125, SOURCE)
    assert again.path.read_bytes() == saved.path.read_bytes()


def test_the_weight_scale_survives_exactly(tmp_path):
    for value in (0.1 + 0.2, 2.0**-1074, 1 / 3, 1.7976931348623157e308):
        image = save_image(tmp_path / "h.safetensors", CONFIG, *random_integers(), value)
        assert image.weight_scale == value


def test_a_damaged_byte_is_found(saved):
    saved.verify()
    data = bytearray(saved.path.read_bytes())
    data[-3] ^= 1
    saved.path.write_bytes(data)
    with pytest.raises(UserError, match=r"head\.safetensors: the image is damaged"):
        Image(saved.path).verify()


def test_the_digest_is_of_all_channels_in_order(wide):
    wide.verify()
    digest = hashlib.sha256(b"".join(bytes(data) for data in wide.channels)).hexdigest()
    assert wide.metadata["sha256"] == digest
    content = wide.path.read_bytes()
    for data in wide.channels[:3]:
        damaged = bytearray(content)
        damaged[data.offset] ^= 1
        wide.path.write_bytes(damaged)
        with pytest.raises(UserError, match="the image is damaged"):
            Image(wide.path).verify()


def test_an_image_of_the_first_version_asks_to_pack_again(tmp_path):
    path = tmp_path / "old.safetensors"
    metadata = {"format": "unembed-image", "version": "1", "rows": "1", "dim": "1"}
    save_file({"image": np.zeros(64, np.uint8)}, path, metadata)
    with pytest.raises(UserError) as info:
        Image(path)
    assert str(info.value) == (
        f"{path}: another version of the image: pack again (expected 2, found 1)"
    )


def test_an_image_is_verified_once(saved, monkeypatch):
    saved.verify()
    monkeypatch.setattr(image_module, "RawFile", lambda path: pytest.fail("the file is read again"))
    saved.verify()


def test_a_damaged_image_is_refused_each_time(saved):
    saved.metadata["sha256"] = "0" * 64
    for _ in range(2):
        with pytest.raises(UserError, match="the image is damaged"):
            saved.verify()


def test_an_image_cut_by_four_bytes_is_named(saved):
    saved.path.write_bytes(saved.path.read_bytes()[:-4])
    with pytest.raises(UserError, match=r"head\.safetensors: the file is cut short"):
        Image(saved.path)


def test_a_missing_image_is_named(tmp_path):
    with pytest.raises(UserError, match=r"gone\.safetensors: no such file"):
        Image(tmp_path / "gone.safetensors")


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("format", "other", r"not a packed image .*found other"),
        ("format", None, r"not a packed image"),
        ("version", "3", r"version of the image: pack again \(expected 2, found 3\)"),
        ("version", None, r"version of the image: pack again \(expected 2\)"),
        ("rows", None, r"damaged metadata: 'rows' is missing"),
        ("rows", "0", r"damaged metadata: max_rows must be in"),
        ("rows", '"11"', r"damaged metadata: max_rows must be an integer"),
        ("rows", "13", r"tensor image0: does not fit the metadata \(expected U8 \[\d+\], found U8"),
        ("dim", "{", r"metadata dim is no JSON"),
        ("weight_scale", "NaN", r"damaged metadata: weight_scale must be positive, got nan"),
        ("weight_scale", "-1.0", r"damaged metadata: weight_scale must be positive"),
        ("weight_scale", "[]", r"damaged metadata: float"),
        ("bias_unit", "0.0", r"damaged metadata: bias_unit must be positive, got 0\.0"),
        ("bound_unit", None, r"damaged metadata: 'bound_unit' is missing"),
        ("first_row", None, r"damaged metadata: 'first_row' is missing"),
        ("first_row", "-1", r"damaged metadata: first_row must be at least 0, got -1"),
        ("first_row", "0.5", r"damaged metadata: 'float' object cannot be interpreted as an int"),
        ("logit_scale", "0.0", r"damaged metadata: logit scale must be finite and above 0"),
        ("logit_scale", "null", r"damaged metadata: float"),
        ("softcap", None, r"damaged metadata: 'softcap' is missing"),
        ("softcap", "-30.0", r"damaged metadata: softcap must be finite and above 0, got -30"),
        ("config", "{}", r"damaged metadata: 'bus_bits' is missing"),
        ("config", "3", r"damaged metadata"),
        ("source", "{}", r"damaged metadata"),
        ("quantisation", "[]", r"damaged metadata"),
    ],
)
def test_metadata_that_make_no_image_are_named(saved, key, text, message):
    def change(header):
        if text is None:
            del header["__metadata__"][key]
        else:
            header["__metadata__"][key] = text

    rewrite(saved.path, change)
    with pytest.raises(UserError, match=r"head\.safetensors.*" + message) as info:
        Image(saved.path)
    assert "\n" not in str(info.value)


def test_other_tensors_are_refused(saved):
    rewrite(saved.path, lambda header: header.update(other=header.pop("image0")))
    with pytest.raises(UserError, match=r"tensors \(expected image0, found other\)"):
        Image(saved.path)


def test_a_missing_channel_is_named(wide):
    rewrite(wide.path, lambda header: header.pop("image3"))
    with pytest.raises(UserError, match=r"expected image0, .*, image3, found image0, image1, ima"):
        Image(wide.path)


def test_nothing_is_left_of_an_image_that_fails(tmp_path):
    path = tmp_path / "head.safetensors"
    path.write_bytes(b"an older image")
    with pytest.raises(KeyboardInterrupt), ImageWriter(path, CONFIG, 11, 40) as writer:
        weights, scales = np.zeros((8, 64), np.int8), np.ones((8, 2), np.int32)
        writer.write(0, weights, scales)
        assert len(os.listdir(tmp_path)) == 2
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["head.safetensors"]
    assert path.read_bytes() == b"an older image"


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    with pytest.raises(UserError, match=r"head\.safetensors: cannot be written: No space left"):
        save_image(tmp_path / "head.safetensors", CONFIG, *random_integers())
    assert not os.listdir(tmp_path)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(UserError, match=r"gone/head\.safetensors: cannot be written: its folder"):
        save_image(tmp_path / "gone" / "head.safetensors", CONFIG, *random_integers())


def test_rows_must_come_in_order_and_all(tmp_path):
    weights, scales = np.zeros((4, 64), np.int8), np.ones((4, 2), np.int32)
    with ImageWriter(tmp_path / "h", CONFIG, 11, 40) as writer:
        writer.write(0, weights, scales)
        with pytest.raises(ValueError, match="rows must follow in order: expected 4"):
            writer.write(8, weights, scales)
        with pytest.raises(ValueError, match="4 of 11 rows were written"):
            writer.write_terms(np.zeros((11, 0), int))
        with pytest.raises(ValueError, match="4 of 11 rows were written"):
            writer.finish(1.0, SOURCE, EXACT)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("value", [-32769, 32768])
def test_terms_that_do_not_fit_are_refused(tmp_path, value):
    weights, scales, terms = random_wide()
    terms[6, 1] = value
    with pytest.raises(ValueError, match=r"a term of row 6 is not in -32768\.\.32767"):
        save_image(tmp_path / "h", WIDE, weights, scales, terms=terms)
    with pytest.raises(ValueError, match=r"terms must be \[11, 2\], got \[11, 1\]"):
        save_image(tmp_path / "h", WIDE, weights, scales, terms=terms[:, :1])
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("config", "weight", "scale", "message"),
    [
        (HeadConfig(weight_bits=4), 8, 1, r"a weight of row 5 is not in -8\.\.7"),
        (HeadConfig(weight_bits=4), -9, 1, r"a weight of row 5 is not in -8\.\.7"),
        (HeadConfig(), 128, 1, r"a weight of row 5 is not in -128\.\.127"),
        (HeadConfig(weight_bits=16), 32768, 1, r"a weight of row 5 is not in -32768\.\.32767"),
        (HeadConfig(), 1, 65536, r"a scale of row 5 is not in 0\.\.65535"),
        (HeadConfig(), 1, -1, r"a scale of row 5 is not in 0\.\.65535"),
        (HeadConfig(scale_bits=8, scale_signed=True), 1, -129, r"not in -128\.\.127"),
    ],
)
def test_values_that_do_not_fit_the_format_are_refused(tmp_path, config, weight, scale, message):
    weights, scales = np.zeros((9, 32), int), np.ones((9, 1), int)
    weights[5, 3], scales[5, 0] = weight, scale
    with pytest.raises(ValueError, match=message):
        save_image(tmp_path / "h", config, weights, scales)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("config", "rows", "dim"),
    [
        (CONFIG, 11, 40),
        (HeadConfig(), 64, 576),
        (HeadConfig(weight_bits=4, group=128, scale_bits=8, scale_signed=True), 101, 300),
        (HeadConfig(bus_bits=64, group=0, width=1), 3, 1),
        (HeadConfig(bus_bits=64, weight_bits=4, group=0, width=1), 3, 1),
        (WIDE, 11, 40),
        (HeadConfig(channels=8, bias=True), 700, 100),
    ],
)
def test_the_description_accounts_for_every_byte(tmp_path, config, rows, dim):
    weights = np.zeros((rows, dim), int)
    scales = np.zeros((rows, config.groups(dim)), int)
    image = save_image(tmp_path / "h", config, weights, scales)
    description = json.loads(json.dumps(describe(image)))
    parts = description["bytes"]
    total = parts.pop("total")
    assert total == image.layout.bytes == sum(parts.values())
    assert min(parts.values()) >= 0
    assert parts["weights"] == rows * dim * config.weight_bits / 8
    assert description["efficiency"] == parts["weights"] / total
    assert description["bits_per_weight"] == 8 * total / (rows * dim)
    assert sum(description["channel_bytes"].values()) == total
    assert parts["terms"] == rows * 2 * config.terms
    layout = description["layout"]
    assert layout["header_beats"] + layout["body_beats"] == layout["beats"]


def test_the_description_tells_of_bias_and_bound(saved, wide):
    assert not {"bias", "bound"} & describe(saved).keys()
    _, _, terms = random_wide()
    description = describe(wide)
    for column, (name, unit) in enumerate((("bias", 0.5), ("bound", 0.25))):
        values = terms[:, column] * unit
        assert description[name] == {
            "unit": unit,
            "lowest": values.min(),
            "highest": values.max(),
            "rms": pytest.approx(np.sqrt((values**2).mean())),
            "zero_rows": 0,
        }


def test_an_image_keeps_its_first_row_and_the_models_transform(tmp_path, saved):
    assert (saved.first_row, saved.transform) == (0, LogitTransform())
    capped = LogitTransform(0.1, 30.0)
    image = save_image(
        tmp_path / "shard", CONFIG, *random_integers(), first_row=501, transform=capped
    )
    assert (image.first_row, image.transform) == (501, capped)
    fields = {"first_row": 501, "logit_scale": 0.1, "softcap": 30.0}
    assert fields.items() <= describe(image).items()
    assert describe(saved)["softcap"] is None


def test_smollm2s_shape_has_the_known_size(tmp_path):
    config = HeadConfig()
    image = save_image(
        tmp_path / "h", config, np.zeros((49152, 576), np.int8), np.zeros((49152, 18), np.uint16)
    )
    layout = describe(image)["layout"]
    assert image.layout.bytes == 30_081_024
    assert (layout["beats"], layout["body_beats"], layout["tiles"]) == (470_016, 442_368, 768)
    assert (layout["tile_header_beats"], layout["tile_body_beats"]) == (36, 576)
