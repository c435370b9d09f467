"""`unembed generate`: Verilog of an accelerator and the documentation of its registers."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from host.console import print_json, stages
from host.errors import UserError
from host.memory_options import add_sizing_options, check_sizing_options
from host.options import Purpose, add_hardware_options, hardware_config
from host.output import Output, check_folder
from host.read_buffer import read_buffer
from hw.config import HeadConfig

NAME = "generate"
HELP = "write the Verilog of an accelerator and its register documentation"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--out", type=Path, required=True, metavar="DIR", help="folder to write to"
    )
    parser.add_argument("--json", action="store_true", help="report as JSON")
    add_hardware_options(parser, Purpose.BUILD)
    add_sizing_options(parser)


FILES = ("unembed.v", "registers.md", "registers.h", "config.json")

OPTIONAL = ("bias", "bound", "mask", "all_logits", "logsumexp", "job_queue")


def summary(config: HeadConfig) -> str:
    """A configuration in one line."""
    group = f"groups of {config.group}" if config.group else "whole rows"
    channels = f" on {config.channels} channels" if config.channels > 1 else ""
    batch = f" for {config.batch} states" if config.batch > 1 else ""
    built = [name.replace("_", " ") for name in OPTIONAL if getattr(config, name)]
    return (
        f"{config.lanes} lanes ({config.lane_units} rows x {config.lane_width} columns, fold "
        f"{config.fold}){batch}{channels}, {config.bus_bits}-bit bus, int{config.weight_bits} in "
        f"{group}, top {config.k} of up to {config.max_rows} rows of {config.max_dim} columns"
        + (f", with {', '.join(built)}" if built else "")
    )


def generated_files(config: HeadConfig) -> dict[str, str]:
    """The files of an accelerator by name; the same text each time."""
    from hw import register_docs, verilog

    texts = (
        verilog.generate(config),
        register_docs.markdown(config),
        register_docs.c_header(config),
        json.dumps(asdict(config), indent=2) + "\n",
    )
    return dict(zip(FILES, texts, strict=True))


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Write text files, each under a temporary name until it is complete.

    Raises
    ------
    UserError
        The folder or a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            with Output(folder / name) as output:
                output.partial.write_text(text, newline="\n")
                output.commit()
    except OSError as error:
        raise UserError(folder, f"cannot be written: {error.strerror}") from None


def run(arguments: argparse.Namespace) -> int:
    check_sizing_options(arguments)
    config = hardware_config(arguments)
    check_folder(arguments.out, FILES)
    buffer = read_buffer(arguments, config) if arguments.memory is not None else None
    if buffer is not None:
        buffer.warn()
    with stages() as progress:
        progress("generating Verilog", 0, 1)
        files = generated_files(config)
        write_files(arguments.out, files)
        progress("generating Verilog", 1, 1)
    paths = [arguments.out / name for name in files]
    if arguments.json:
        sized = {} if buffer is None else {"read_buffer": buffer.as_dict()}
        print_json({"files": list(map(str, paths)), "config": asdict(config)} | sized)
        return 0
    print(summary(config))
    if buffer is not None:
        print(buffer.line())
    for path in paths:
        print(path)
    return 0
