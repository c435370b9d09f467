"""`unembed pack`: a model's head to an image."""

import argparse
import dataclasses
import re

from host.console import print_json, stages
from host.options import paths
from host.options.hardware import Purpose, add_hardware_options, pack_options
from host.pack import pack

NAME = "pack"
HELP = "pack the head of a model for the accelerator"


def _row_range(text: str) -> tuple[int, int | None]:
    match = re.fullmatch(r"([0-9]*):([0-9]*)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"must be A:B, rows A to B - 1, got {text!r}")
    first, stop = match.groups()
    return int(first or 0), int(stop) if stop else None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        type=paths.path,
        metavar="MODEL",
        help=".gguf, .safetensors, .npy or .npz file, or a model folder",
    )
    parser.add_argument(
        "-o", "--out", type=paths.path, required=True, metavar="FILE", help="the image to write"
    )
    parser.add_argument(
        "--keep-rows", action="store_true", help="keep rows past the tokenizer's vocabulary"
    )
    parser.add_argument(
        "--rows",
        type=_row_range,
        metavar="A:B",
        help="pack a shard: rows A to B - 1 of the vocabulary, counted from 0, with the scale of "
        "all of it; without A from the first row, without B to the last",
    )
    parser.add_argument("--json", action="store_true", help="report as JSON")
    add_hardware_options(parser, Purpose.PACK)


def run(arguments: argparse.Namespace) -> int:
    options = dataclasses.replace(
        pack_options(arguments, arguments.keep_rows), row_range=arguments.rows
    )
    with stages() as progress:
        report = pack(
            arguments.model,
            arguments.out,
            options,
            lambda done, total: progress(f"packing {arguments.model.name}", done, total),
        )
    if arguments.json:
        print_json(report.as_dict())
    else:
        print(report)
    return 0
