"""`unembed estimate`: cycles and rates of a head without simulating it."""

import argparse
from dataclasses import asdict, dataclass, field

from rich.table import Table

from host.console import print_json, print_table
from host.errors import UsageError
from host.files.output import check_output
from host.image import Image
from host.options import paths
from host.options.hardware import (
    RUN_FUNCTIONS,
    Purpose,
    add_hardware_options,
    config_for_image,
)
from host.options.memory import (
    add_simulation_options,
    check_simulation_options,
    clock_hz,
    describe,
    memory_model,
)
from host.reports import roofline
from host.reports.read_buffer import read_buffer
from host.reports.timeline_plot import check_suffix, save
from hw.config import MAX_K, HeadConfig
from sim.estimate import Estimate, PaperConfig, estimate

NAME = "estimate"
HELP = "estimate the cycles of a head, and what limits it, without simulating"

DEFAULT_K = 64
MOST_ROWS, MOST_DIM = 2**31 - 1, 65536
MOST_STATES = 10**9

SPLIT = {
    "start": "from the acceptance of a job to its first read address",
    "data": "a beat of states or image goes to the data path",
    "waiting": "memory has not delivered",
    "refused": "the data path is the slower side",
    "tail": "results collected and written",
}


@dataclass(frozen=True)
class Shape:
    """A head without an image, as far as `host.options.hardware.config_for_image` looks at one."""

    rows: int
    dim: int
    path: str = "the head"
    config_fields: dict[str, object] = field(default_factory=dict)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "image",
        type=paths.path,
        nargs="?",
        metavar="IMAGE",
        help="image from unembed pack; or its size by --vocab and --dim",
    )
    parser.add_argument("--vocab", type=int, metavar="V", help="rows of a head without an image")
    parser.add_argument("--dim", type=int, metavar="D", help="its columns")
    parser.add_argument(
        "-k", type=int, help=f"results per state (default {DEFAULT_K}, at most --max-k)"
    )
    parser.add_argument(
        "--states", type=int, metavar="N", help="hidden states (default: those of a job, --batch)"
    )
    parser.add_argument(
        "--plot",
        type=paths.path,
        metavar="FILE",
        help="draw the roofline, .png or .svg: lanes against memories, and which side binds",
    )
    parser.add_argument("--json", action="store_true", help="the estimate as JSON")
    functions = parser.add_argument_group("optional functions", "The hardware is built with them.")
    functions.add_argument("--mask", action="store_true", help="jobs bring masks, of all rows")
    functions.add_argument(
        "--all-logits", action="store_true", help="the logits of all rows are written"
    )
    functions.add_argument(
        "--logsumexp", action="store_true", help="the log-sum-exp comes with the results"
    )
    add_hardware_options(parser, Purpose.ESTIMATE)
    add_simulation_options(parser)


def _check_arguments(arguments: argparse.Namespace) -> None:
    check_simulation_options(arguments)
    size = (("--vocab", arguments.vocab, MOST_ROWS), ("--dim", arguments.dim, MOST_DIM))
    for option, value, most in size:
        if arguments.image is not None and value is not None:
            raise UsageError(option, f"is of a head without an image, not of {arguments.image}")
        if arguments.image is None and value is None:
            raise UsageError(option, "is needed, as --vocab V --dim D, where there is no image")
        if value is not None and not 1 <= value <= most:
            raise UsageError(option, f"must be in 1..{most}", found=value)
    if arguments.k is not None and not 1 <= arguments.k <= MAX_K:
        raise UsageError("-k", f"must be in 1..{MAX_K}", found=arguments.k)
    if arguments.states is not None and not 1 <= arguments.states <= MOST_STATES:
        raise UsageError("--states", f"must be in 1..{MOST_STATES}", found=arguments.states)
    if arguments.plot is not None:
        check_suffix(arguments.plot)
        check_output(arguments.plot)


def run(arguments: argparse.Namespace) -> int:
    _check_arguments(arguments)
    head = Shape(arguments.vocab, arguments.dim)
    if arguments.image is not None:
        head = Image(arguments.image)
    functions = [name for name in RUN_FUNCTIONS if getattr(arguments, name)]
    config = config_for_image(arguments, head, arguments.k, functions, kind=PaperConfig)
    k = arguments.k if arguments.k is not None else min(DEFAULT_K, config.k)
    job = {"k": k, "mask": arguments.mask, "all_logits": arguments.all_logits}
    system = {"memory": memory_model(arguments), "clock_hz": clock_hz(arguments)}
    try:
        found = estimate(config, head.rows, head.dim, vectors=arguments.states, **job, **system)
    except ValueError as error:
        # The number of devices has to go with that of the ports.
        raise UsageError("--memory-devices", str(error)) from None
    if arguments.plot is not None:
        figure = roofline.draw(config, head.rows, head.dim, found, **job, **system)
        save(figure, arguments.plot)
    if arguments.json:
        print_json(_document(arguments, config, head, k, found))
    else:
        _print(arguments, config, head, k, found)
    return 0


def _document(
    arguments: argparse.Namespace, config: HeadConfig, head: Image | Shape, k: int, found: Estimate
) -> dict:
    return {
        "rows": head.rows,
        "dim": head.dim,
        "k": k,
        **found.as_dict(),
        "memory": describe(memory_model(arguments), config.channels),
        "read_buffer": read_buffer(arguments, config).as_dict(),
        "config": asdict(config),
    }


def _print(
    arguments: argparse.Namespace, config: HeadConfig, head: Image | Shape, k: int, found: Estimate
) -> None:
    jobs = f"{found.jobs:,} jobs of up to {config.batch}" if found.jobs > 1 else "1 job"
    states = f"{found.vectors:,} states" if found.vectors > 1 else "1 state"
    ports = f"{config.channels} ports" if config.channels > 1 else "1 port"
    print(
        f"{head.rows:,} rows x {head.dim:,} columns, {states} in {jobs}, k = {k}; "
        f"{config.lanes} lanes a state and port, {ports} of {config.bus_bits} bits"
    )
    table = Table(box=None, show_header=False, padding=(0, 3, 0, 0))
    table.add_column()
    for _ in range(2):
        table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in SPLIT.items():
        value = getattr(found, name)
        table.add_row(name, f"{value:,}", f"{100 * value / found.cycles:.2f} %", text)
    table.add_row("cycles", f"{found.cycles:,}", "", "")
    print_table(table)
    per_state = found.cycles / found.vectors
    print(
        f"{per_state:,.0f} cycles and {found.bytes_read / found.vectors:,.0f} bytes per token: at "
        f"{float(clock_hz(arguments)) / 1e6:.6g} MHz {found.tokens_per_s:,.1f} tokens/s, "
        f"{found.bytes_per_s / 1e9:.2f} GB/s"
    )
    print(f"bound by {found.bound_by}: {found.bound.reason}")
    print(f"would help: {found.bound.remedy}")
    buffer = read_buffer(arguments, config)
    if buffer.worth_a_line:
        print(buffer.line())
    if arguments.plot is not None:
        print(f"roofline in {arguments.plot}")
