"""`unembed pack`: a model's head to an image."""

import argparse
from pathlib import Path

from host.console import print_json, stages
from host.options import Purpose, add_hardware_options, pack_options
from host.pack import pack

NAME = "pack"
HELP = "pack the head of a model for the accelerator"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        type=Path,
        metavar="MODEL",
        help=".gguf, .safetensors, .npy or .npz file, or a model folder",
    )
    parser.add_argument(
        "-o", "--out", type=Path, required=True, metavar="FILE", help="the image to write"
    )
    parser.add_argument(
        "--keep-rows", action="store_true", help="keep rows past the tokenizer's vocabulary"
    )
    parser.add_argument("--json", action="store_true", help="report as JSON")
    add_hardware_options(parser, Purpose.PACK)


def run(arguments: argparse.Namespace) -> int:
    options = pack_options(arguments, arguments.keep_rows)
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
