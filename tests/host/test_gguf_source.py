import gguf
import numpy as np
import pytest

from host.errors import UserError
from host.files.gguf_format import read_header
from host.files.rawfile import RawFile
from host.sources.open import open_source

from .model_files import Q, q4_0, q8_0, random_matrix, write_gguf

W = random_matrix(6, 256)


def test_output_weight_is_the_head(tmp_path):
    path = write_gguf(
        tmp_path / "m.gguf",
        {"token_embd.weight": (W + 1, None), "output.weight": (W, None)},
        hidden=256,
    )
    with open_source(path) as head:
        assert (head.tensor, head.tied, head.rows, head.dim) == ("output.weight", False, 6, 256)
        assert np.array_equal(head.read(0, 6), W)
        assert np.array_equal(head.read(2, 3), W[2:3])


def test_the_embedding_is_the_head_where_there_is_no_output_weight(tmp_path):
    path = write_gguf(tmp_path / "m.gguf", {"token_embd.weight": (W, None)}, hidden=256)
    with open_source(path) as head:
        assert (head.tensor, head.tied) == ("token_embd.weight", True)


def test_a_part_of_a_split_model_is_refused(tmp_path):
    path = write_gguf(
        tmp_path / "m.gguf", {"token_embd.weight": (W, None)}, extra={"split.count": 2}
    )
    with pytest.raises(UserError, match=r"m\.gguf: one part of a split model .*found 2 parts"):
        open_source(path)


def test_a_model_without_a_head_is_refused(tmp_path):
    path = write_gguf(tmp_path / "m.gguf", {"blk.0.ffn_up.weight": (W, None)})
    with pytest.raises(UserError, match=r"m\.gguf: no head \(expected a tensor output\.weight"):
        open_source(path)


def test_a_transposed_head_is_refused(tmp_path):
    path = write_gguf(tmp_path / "m.gguf", {"output.weight": (W, None)}, hidden=6)
    with pytest.raises(UserError, match=r"output\.weight: is transposed .*found \[6, 256\]"):
        open_source(path)


def test_a_head_of_another_width_is_refused(tmp_path):
    path = write_gguf(tmp_path / "m.gguf", {"output.weight": (W, None)}, hidden=128)
    with pytest.raises(UserError, match=r"another hidden width .*expected \[vocabulary, 128\]"):
        open_source(path)


@pytest.mark.parametrize("kind", ["Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_0", "BF16", "F16", "F32"])
def test_types_are_dequantised_as_gguf_does(tmp_path, kind):
    kind = Q[kind]
    data = gguf.quants.quantize(W, kind)
    raw = None if kind in (Q.F16, Q.F32) else kind
    path = write_gguf(tmp_path / "m.gguf", {"output.weight": (data, raw)}, hidden=256)
    with open_source(path) as head:
        assert head.dtype == kind.name
        assert np.array_equal(head.read(1, 5), gguf.quants.dequantize(data, kind)[1:5])


@pytest.mark.parametrize("kind", ["Q4_K", "Q5_K", "Q6_K"])
def test_k_quants_are_dequantised_as_gguf_does(tmp_path, kind):
    kind = Q[kind]
    rng = np.random.default_rng(0)
    size = gguf.GGML_QUANT_SIZES[kind][1]
    data = rng.integers(0, 60, (6, size), np.uint8)  # no float16 of these bytes is infinite
    path = write_gguf(tmp_path / "m.gguf", {"output.weight": (data, kind)})
    with open_source(path) as head:
        assert head.integer_form is None
        assert np.array_equal(head.read(0, 6), gguf.quants.dequantize(data, kind))


@pytest.mark.parametrize(("blocks", "low", "high"), [(q8_0, -128, 128), (q4_0, -8, 8)])
def test_integers_times_scales_are_the_dequantised_weights(tmp_path, blocks, low, high):
    rng = np.random.default_rng(1)
    weights = rng.integers(low, high, (5, 96))
    scales = rng.standard_normal((5, 3)).astype(np.float16)
    path = write_gguf(tmp_path / "m.gguf", {"output.weight": blocks(weights, scales)})
    with open_source(path) as head:
        found_weights, found_scales = head.read_integers(1, 5)
        assert np.array_equal(found_weights, weights[1:])
        assert np.array_equal(found_scales, scales[1:])
        product = found_weights * np.repeat(found_scales.astype(np.float32), 32, axis=1)
        assert np.array_equal(head.read(1, 5), product)


def test_a_q4_0_block_with_a_negative_scale_gives_a_positive_weight(tmp_path):
    blocks = q4_0(np.full((1, 32), -8), np.array([[-0.5]]))
    path = write_gguf(tmp_path / "m.gguf", {"output.weight": blocks})
    with open_source(path) as head:
        assert (head.read(0, 1) == 4.0).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_scale_that_is_not_finite_is_refused_with_tensor_and_row(tmp_path, value):
    scales = np.ones((9, 2))
    scales[7, 1] = value
    path = write_gguf(tmp_path / "m.gguf", {"output.weight": q8_0(np.ones((9, 64)), scales)})
    with open_source(path) as head:
        for read in (head.read_integers, head.read):
            read(0, 7)
            with pytest.raises(UserError, match=r"m\.gguf: tensor output\.weight: row 7 .*finite"):
                read(3, 9)


def test_an_unsupported_type_is_refused(tmp_path):
    path = write_gguf(tmp_path / "m.gguf", {"output.weight": (np.ones((2, 8), np.int32), None)})
    with pytest.raises(UserError, match=r"output\.weight: cannot be dequantised .*found I32"):
        open_source(path)


def test_the_tokenizer_gives_the_vocabulary(tmp_path):
    path = write_gguf(
        tmp_path / "m.gguf", {"output.weight": (W, None)}, tokens=["a", "b", "c", "d"]
    )
    with open_source(path) as head:
        assert (head.rows, head.vocabulary) == (6, 4)


def test_padding_tokens_of_the_converter_are_no_vocabulary(tmp_path):
    path = write_gguf(
        tmp_path / "m.gguf",
        {"output.weight": (W, None)},
        tokens=["a", "[PAD1]", "b", "[PAD3]", "[PAD4]", "[PAD5]"],
        types=[1, 5, 1, 1, 5, 5],
    )
    with open_source(path) as head:
        assert head.vocabulary == 4


def test_a_file_cut_by_four_bytes_is_named(tmp_path):
    path = write_gguf(tmp_path / "m.gguf", {"output.weight": (W, None)}, hidden=256)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(UserError, match=r"m\.gguf: the file is cut short .*expected at least"):
        open_source(path)


def test_a_file_cut_anywhere_is_named(tmp_path):
    path = write_gguf(
        tmp_path / "m.gguf", {"output.weight": (W[:, :8], None)}, tokens=["a", "bc"], types=[1, 1]
    )
    whole = path.read_bytes()
    cut = tmp_path / "cut.gguf"
    for size in range(len(whole)):
        cut.write_bytes(whole[:size])
        with pytest.raises(UserError, match=r"cut\.gguf"):
            open_source(cut)


def test_a_damaged_length_does_not_allocate(tmp_path):
    path = write_gguf(tmp_path / "m.gguf", {"output.weight": (W, None)}, hidden=256)
    data = bytearray(path.read_bytes())
    data[24:32] = (2**60).to_bytes(8, "little")  # the length of the first key
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"m\.gguf: the file is cut short"):
        open_source(path)


@pytest.mark.parametrize(
    "content", [b"", b"GG", b"short", b"not a GGUF file at all, but long enough"]
)
def test_something_else_is_named(tmp_path, content):
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"m\.gguf: not a GGUF file"):
        open_source(path)


def test_header_agrees_with_the_library(tmp_path):
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_custom_alignment(128)
    for number, (kind, value) in enumerate(
        [
            ("uint8", 200),
            ("int8", -3),
            ("uint16", 60000),
            ("int16", -300),
            ("uint32", 1 << 31),
            ("int32", -(1 << 31)),
            ("uint64", 1 << 63),
            ("int64", -(1 << 63)),
            ("float32", 0.5),
            ("float64", 0.1),
            ("bool", True),
            ("string", "grüße"),
            ("array", [1, -2, 3]),
            ("array", ["x", "yz"]),
            ("array", [0.5, 1.5]),
        ]
    ):
        getattr(writer, f"add_{kind}")(f"test.field{number}", value)
    writer.add_tensor("a.weight", np.ones((3, 5), np.float32))
    writer.add_tensor("b.weight", np.ones((2, 3, 4), np.float16))
    writer.add_tensor("c.bias", np.ones(7, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    with RawFile(path) as file:
        fields, tensors = read_header(file)
    reader = gguf.GGUFReader(path)
    for name, value in fields.items():
        expected = reader.fields[name].contents()
        if isinstance(value, list):
            value = [item.decode() for item in value]
        elif isinstance(value, np.ndarray):
            value = value.tolist()
        assert value == expected, name
    assert len(fields) == sum(not name.startswith("GGUF.") for name in reader.fields)
    assert {name: (t.type, t.offset, t.size) for name, t in tensors.items()} == {
        t.name: (t.tensor_type, t.data_offset, t.n_bytes) for t in reader.tensors
    }
    assert tensors["b.weight"].shape == (2, 3, 4)
