"""Logit scale and softcap from the model's configuration to the image."""

import json

import numpy as np
import pytest

from host.errors import UserError
from host.image import Image
from host.pack import PackOptions, pack
from host.sampling import LogitTransform
from host.sources.open import open_source

from .command_line import assert_one_line, without_progress
from .model_files import random_matrix, write_gguf, write_model

W = random_matrix(8, 32)
SIZES = {"hidden_size": 32, "vocab_size": 8}
CAP = "final_logit_softcapping"


def folder_of(path, config):
    return write_model(path / "m", {"lm_head.weight": W}, config)


def gguf_of(path, architecture, **fields):
    extra = {f"{architecture}.{name}": value for name, value in fields.items()}
    tensors = {"output.weight": (W, None)}
    return write_gguf(path / "m.gguf", tensors, extra=extra, architecture=architecture)


def transform_of(source):
    with open_source(source) as head:
        return head.transform


@pytest.mark.parametrize(
    ("config", "scale", "softcap"),
    [
        ({}, 1, None),
        ({"model_type": "llama"}, 1, None),
        ({"model_type": "gemma2", CAP: 20.0}, 1, 20),
        ({"model_type": "gemma2"}, 1, 30),
        ({"model_type": "gemma2", CAP: None}, 1, None),
        ({"model_type": "gemma3_text", CAP: None}, 1, None),
        ({"model_type": "gemma3_text"}, 1, None),
        ({CAP: 30}, 1, 30),
        ({"model_type": "cohere", "logit_scale": 0.25}, 0.25, None),
        ({"model_type": "cohere2"}, 0.0625, None),
        ({"model_type": "cohere", "logit_scale": None}, 1, None),
        ({"model_type": "granite", "logits_scaling": 8.0}, 0.125, None),
        ({"model_type": "granitemoehybrid", "logits_scaling": 16}, 0.0625, None),
        ({"model_type": "hyperclovax", "logits_scaling": 0.125}, 0.125, None),
        ({"model_type": "falcon_h1", "lm_head_multiplier": 0.0195}, 0.0195, None),
        ({"attn_logit_softcapping": 50.0, "logit_scale_init_value": 2.6}, 1, None),
        ({"logit_scale": 0.5, CAP: 15.0}, 0.5, 15),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_a_config_tells_the_transform(tmp_path, config, scale, softcap, nested):
    config = {"text_config": SIZES | config} if nested else SIZES | config
    assert transform_of(folder_of(tmp_path, config)) == LogitTransform(scale, softcap)


def test_of_several_modalities_the_language_model_counts(tmp_path):
    config = {
        "model_type": "gemma3n",
        "logit_scale": 4.6,  # of the contrast between texts and pictures
        "text_config": SIZES,
        "vision_config": {CAP: 5.0},
    }
    assert transform_of(folder_of(tmp_path, config)) == LogitTransform(1.0, 30.0)


def test_a_file_beside_a_config_has_its_transform(tmp_path):
    folder = folder_of(tmp_path, SIZES | {"logit_scale": 0.5})
    assert transform_of(folder / "model.safetensors") == LogitTransform(0.5)
    (folder / "config.json").unlink()
    assert transform_of(folder) == LogitTransform()


@pytest.mark.parametrize(
    ("architecture", "fields", "scale", "softcap"),
    [
        ("llama", {}, 1, None),
        ("gemma2", {CAP: 20.0}, 1, 20),
        ("gemma2", {}, 1, 30),
        ("gemma3n", {}, 1, 30),
        ("gemma3", {}, 1, None),
        ("gemma4", {CAP: 30.0}, 1, 30),
        ("command-r", {"logit_scale": 0.0625}, 0.0625, None),
        ("cohere2", {"logit_scale": 0.25}, 0.25, None),
        ("granite", {"logit_scale": 8.0}, 0.125, None),
        ("granitemoe", {"logit_scale": 4.0}, 0.25, None),
        ("granitehybrid", {"logit_scale": 16.0}, 0.0625, None),
        ("minicpm", {"logit_scale": 9.0}, 1 / 9, None),
        ("grok", {"logit_scale": 0.5, CAP: 50.0}, 0.5, 50),
        ("grok", {}, 0.5773502691896257, None),
        ("falcon-h1", {}, 1, None),
    ],
)
def test_gguf_fields_tell_the_transform(tmp_path, architecture, fields, scale, softcap):
    found = transform_of(gguf_of(tmp_path, architecture, **fields))
    assert (found.scale, found.softcap) == (pytest.approx(scale, rel=1e-15), softcap)


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        (CAP, 0, "0"),
        (CAP, -30.0, "-30.0"),
        (CAP, float("inf"), "inf"),
        (CAP, "30", "30"),
        (CAP, True, "True"),
        ("logit_scale", 0.0, "0.0"),
        ("logit_scale", float("nan"), "nan"),
        ("logit_scale", "inv_sqrt_d_model", "inv_sqrt_d_model"),
        ("logit_scale", [0.5], r"\[0\.5\]"),
        ("logit_scale", 10**400, r"10{39}\.\.\."),
        ("logits_scaling", 0, "0"),
        ("logits_scaling", 1e-320, "inf"),
        ("lm_head_multiplier", -0.5, "-0.5"),
    ],
)
def test_a_value_of_a_config_that_cannot_be_is_named(tmp_path, name, value, found):
    folder = folder_of(tmp_path, SIZES | {name: value})
    message = rf"config\.json: (1 / )?{name} \(expected a finite number above 0, found {found}\)"
    with pytest.raises(UserError, match=message):
        open_source(folder)


def test_factors_whose_product_is_no_number_are_refused(tmp_path):
    folder = folder_of(tmp_path, SIZES | {"logit_scale": 1e300, "lm_head_multiplier": 1e300})
    with pytest.raises(UserError, match=r"config\.json: logit scale must be finite and above 0"):
        open_source(folder)


@pytest.mark.parametrize("architecture", ["cohere2", "granite"])
@pytest.mark.parametrize("name", ["logit_scale", CAP])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), "big"])
def test_a_gguf_field_that_cannot_be_is_named(tmp_path, architecture, name, value):
    path = gguf_of(tmp_path, architecture, **{name: value})
    message = rf"m\.gguf: {architecture}\.{name} \(expected a finite number above 0, found {value}"
    with pytest.raises(UserError, match=message):
        open_source(path)


def test_the_image_keeps_the_transform_and_raw_weights(tmp_path):
    plain = folder_of(tmp_path, SIZES)
    pack(plain, tmp_path / "plain", PackOptions(bus_bits=64))
    source = folder_of(tmp_path, SIZES | {"logits_scaling": 3, CAP: 30.0})
    report = pack(source, tmp_path / "head", PackOptions(bus_bits=64))
    image = Image(tmp_path / "head")
    assert image.transform == LogitTransform(1 / 3, 30.0)
    assert (report.logit_scale, report.softcap) == (1 / 3, 30.0)
    raw = Image(tmp_path / "plain")
    assert raw.transform == LogitTransform()
    assert raw.weight_scale == image.weight_scale
    assert np.array_equal(raw.channels[0], image.channels[0])
    np.save(tmp_path / "w.npy", W)
    pack(tmp_path / "w.npy", tmp_path / "npy")
    assert Image(tmp_path / "npy").transform == LogitTransform()


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({}, None),
        ({CAP: 30.0}, "logits   times 1, then capped at 30: by the host, not in the scores"),
        ({"logit_scale": 0.0625}, "logits   times 0.0625: by the host, not in the scores"),
    ],
)
def test_the_commands_show_the_transform(run, tmp_path, config, line):
    folder, out = folder_of(tmp_path, SIZES | config), tmp_path / "head"
    code, text, _ = run("pack", folder, "-o", out)
    assert code == 0
    assert [found for found in text.splitlines() if found.startswith("logits")] == (
        [line] if line else []
    )
    _, text, _ = run("pack", folder, "-o", out, "--json")
    report = json.loads(text)
    _, text, _ = run("inspect", out, "--json")
    description = json.loads(text)
    for document in (report, description):
        assert document["logit_scale"] == config.get("logit_scale", 1)
        assert document["softcap"] == config.get(CAP)
    _, text, _ = run("inspect", out)
    rows = [found.split() for found in text.splitlines()]
    assert ["softcap", f"{config[CAP]:g}" if CAP in config else "-"] in rows
    assert ["logit", "scale", f"{config.get('logit_scale', 1):g}"] in rows


def test_a_wrong_value_fails_in_one_line(run, tmp_path):
    folder = folder_of(tmp_path, SIZES | {CAP: -30})
    code, _, err = run("pack", folder, "-o", tmp_path / "head")
    assert code == 1
    assert_one_line(without_progress(err), folder / "config.json", CAP, "found -30")
    code, _, err = run("pack", gguf_of(tmp_path, "granite", logit_scale=0.0), "-o", tmp_path / "h")
    assert code == 1
    assert_one_line(without_progress(err), "m.gguf", "granite.logit_scale", "found 0.0")
