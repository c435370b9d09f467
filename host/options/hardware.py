"""Hardware parameters as command-line options and in a file, one set for all commands."""

import argparse
import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from host.errors import UsageError
from host.options import paths
from host.options.memory import clock_hz, memory_model
from host.pack import PackOptions
from hw.config import (
    BUS_BITS,
    CHANNELS,
    FOLDS,
    GROUPS,
    HIDDEN_BITS,
    IMAGE_FIELDS,
    INSERT_INTERVALS,
    MAX_BATCH,
    MAX_K,
    SCALE_BITS,
    WEIGHT_BITS,
    WHOLE_ROW,
    HeadConfig,
)
from sim.estimate_job import MOST_BATCH
from sim.memory.sizing import choose

if TYPE_CHECKING:
    from host.image import Image


def _group(text: str) -> int:
    if text == "row":
        return WHOLE_ROW
    try:
        value = int(text)
    except ValueError:
        value = None
    if value not in GROUPS:
        raise argparse.ArgumentTypeError(f"must be 32, 64, 128 or row, got {text}")
    return value


@dataclass(frozen=True)
class Parameter:
    """One parameter of `HeadConfig` as an option."""

    field: str
    """Name in `HeadConfig` and in a parameter file."""
    help: str
    choices: tuple[int, ...] | None = None
    option_name: str | None = None
    default: str | None = None
    """The default in words where `HeadConfig` computes it."""
    pack_default: str | None = None
    """The default in words where the model that is packed decides."""

    @property
    def option(self) -> str:
        return self.option_name or "--" + self.field.replace("_", "-")

    @property
    def is_flag(self) -> bool:
        return isinstance(_DEFAULTS[self.field], bool)


_DEFAULTS = {field.name: field.default for field in fields(HeadConfig)}


PARAMETERS = (
    Parameter("bus_bits", "data width of the memory port", BUS_BITS),
    Parameter(
        "weight_bits", "width of a weight", WEIGHT_BITS, pack_default="8; Q4_0: 4; int16 arrays: 16"
    ),
    Parameter("scale_bits", "width of a stored scale", SCALE_BITS),
    Parameter(
        "scale_signed", "stored scales are signed", default="no", pack_default="no; Q4_0: yes"
    ),
    Parameter("group", "columns that share a scale: 32, 64, 128 or row"),
    Parameter(
        "width",
        "columns of a row per bus beat, a power of two",
        default="as a beat holds, at most 32",
    ),
    Parameter(
        "tile_rows", "rows per tile of the image", default="64, or the rows of a beat if more"
    ),
    Parameter("channels", "memory ports, each with a part of the vocabulary", CHANNELS),
    Parameter(
        "bias",
        "rows have a bias",
        default="no",
        pack_default="where the model has one",
    ),
    Parameter(
        "bound",
        "rows have a bound of their error and are ranked by the largest logit it allows",
        default="no",
    ),
    Parameter("batch", f"hidden states per job, which share every weight read, 1..{MAX_BATCH}"),
    Parameter("mask", "jobs may bring masks of the rows allowed", default="no"),
    Parameter("all_logits", "jobs may have all logits written to memory", default="no"),
    Parameter(
        "logsumexp", "the logarithm of the sum of exponentials comes with results", default="no"
    ),
    Parameter("job_queue", "a job may wait, and starts as the one before ends", default="no"),
    Parameter("hidden_bits", "width of a quantised hidden value", HIDDEN_BITS),
    Parameter(
        "dsp_pairs",
        "two products per DSP block: weights of 4 bits, or a batch with all values of 8",
        default="no",
    ),
    Parameter("fold", "clocks per bus beat of weights; lanes shrink by it", FOLDS),
    Parameter("max_dim", "largest hidden width"),
    Parameter("max_rows", "largest vocabulary"),
    Parameter("k", f"most results per hidden state, 1..{MAX_K}", option_name="--max-k"),
    Parameter(
        "insert_interval",
        "clocks between top-k insertions",
        INSERT_INTERVALS,
        default="6 where rows take that long, else 4",
    ),
    Parameter(
        "rankers",
        "stages per channel that share the states of a job, a power of two",
        default="as many as keep up with rows of half --max-dim",
    ),
    Parameter(
        "max_burst",
        "largest AXI burst, beats",
        default="64, at most 4096 bytes; less if half the buffer then does",
    ),
    Parameter(
        "outstanding_bytes",
        "read data under way or buffered, bytes, a power of two",
        default="256 beats; with a DRAM, what its latency and bandwidth need",
    ),
)

BUFFER_FIELDS = ("max_burst", "outstanding_bytes")
"""Parameters that are chosen for the memory; the last of `PARAMETERS`."""

OPTIONS = {parameter.field: parameter.option for parameter in PARAMETERS}

RUN_FUNCTIONS = ("mask", "all_logits", "logsumexp")
"""Optional functions that a run asks for, by options that have the same names."""


class Purpose(Enum):
    """What hardware options are for, and what the help says of their defaults."""

    PACK = (
        "image parameters",
        "Q4_0 defaults to 4-bit weights and signed scales, which hold it exactly.",
    )
    RUN = (
        "hardware parameters",
        "The image decides its own format: an option that contradicts it is an error. --max-dim, "
        "--max-rows and --max-k grow with the image and -k unless they are given.",
    )
    ESTIMATE = (
        "hardware parameters",
        "As for unembed simulate; besides, any power of two of channels and batches to "
        f"{MOST_BATCH}, which hardware cannot have.",
    )
    BUILD = ("hardware parameters", None)


def _default(parameter: Parameter, purpose: Purpose) -> str:
    if purpose is Purpose.RUN and parameter.field in IMAGE_FIELDS:
        return " (default: the image's)"
    if purpose is Purpose.ESTIMATE and parameter.field in IMAGE_FIELDS:
        default = parameter.default or _DEFAULTS[parameter.field]
        return f" (default: the image's, or {default})"
    default = parameter.default or _DEFAULTS[parameter.field]
    if purpose is Purpose.PACK:
        default = parameter.pack_default or default
    return f" (default {default})"


def _has_option(parameter: Parameter, purpose: Purpose) -> bool:
    if purpose is Purpose.PACK:
        return parameter.field in IMAGE_FIELDS
    # A run builds the functions that it uses.
    return purpose is Purpose.BUILD or parameter.field not in RUN_FUNCTIONS


def add_hardware_options(parser: argparse.ArgumentParser, purpose: Purpose) -> None:
    """Add the hardware's options and --config; for packing those of the image's format."""
    title, note = purpose.value
    group = parser.add_argument_group(title, note)
    for parameter in PARAMETERS:
        if not _has_option(parameter, purpose):
            continue
        text = parameter.help + _default(parameter, purpose)
        names = {"dest": f"hardware_{parameter.field}", "default": None, "help": text}
        if parameter.is_flag:
            group.add_argument(parameter.option, action=argparse.BooleanOptionalAction, **names)
        elif parameter.field == "group":
            group.add_argument(parameter.option, type=_group, metavar="N", **names)
        else:
            choices = parameter.choices
            if purpose is Purpose.ESTIMATE and parameter.field == "channels":
                choices = None
            metavar = None if choices else "N"
            group.add_argument(
                parameter.option, type=int, choices=choices, metavar=metavar, **names
            )
    group.add_argument(
        "--config",
        type=paths.path,
        metavar="FILE",
        help="parameters by their names in HeadConfig: a TOML file with a table [hardware], or a "
        ".json file like the config.json that unembed generate writes; options override it",
    )


def given_parameters(arguments: argparse.Namespace) -> dict[str, tuple[object, str]]:
    """Parameters that the user set: value and where it was set, by `HeadConfig` field.

    They begin with those of a board (`host.boards.options.board_defaults`).

    Raises
    ------
    UsageError
        The parameter file cannot be read or has an unknown table or key.
    """
    given = dict(getattr(arguments, "board_parameters", {}))
    if arguments.config is not None:
        for field, value in _checked_parameters(arguments.config).items():
            given[field] = (value, f"{arguments.config}: {field}")
    for parameter in PARAMETERS:
        value = getattr(arguments, f"hardware_{parameter.field}", None)
        if value is not None:
            given[parameter.field] = (value, parameter.option)
    return given


def pack_options(arguments: argparse.Namespace, keep_rows: bool = False) -> PackOptions:
    """The image format that options and parameter file describe.

    Raises
    ------
    UsageError
        No image can have that format, whatever the model.
    """
    given = given_parameters(arguments)
    values = {field: value for field, (value, _) in given.items()}
    image_values = {field: value for field, value in values.items() if field in IMAGE_FIELDS}
    _check_any_weights(image_values, given)
    # The others decide nothing here, but a mistake in the file shows at once. A file that is sound
    # by itself need not go with options that override it.
    if values != image_values:
        try:
            _check_any_weights(values, given)
        except UsageError:
            _check_any_weights(_checked_parameters(arguments.config), given)
    return PackOptions(**image_values, keep_rows=keep_rows)


def _check_any_weights(values: dict[str, object], given: dict[str, tuple[object, str]]) -> None:
    """Raise UsageError unless parameters are right for weights of some width.

    A model can set that width, where it is of integers; the message is that of most models.
    """
    widths = sorted(WEIGHT_BITS, key=lambda bits: bits != _DEFAULTS["weight_bits"])
    errors = []
    for bits in [values["weight_bits"]] if "weight_bits" in values else widths:
        try:
            build_config(values | {"weight_bits": bits}, given)
            return
        except UsageError as error:
            errors.append(error)
    raise errors[0]


def _read_parameters(path: Path) -> dict[str, object]:
    """Parameters of a .json file, which is one object of them, or else a TOML file."""
    name, load = ("JSON", json.load) if path.suffix.lower() == ".json" else ("TOML", tomllib.load)
    try:
        with open(path, "rb") as file:
            document = load(file)
    except OSError as error:
        raise UsageError(path, f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(path, f"is no {name} file: {error}") from None
    table = document if name == "JSON" else _hardware_table(path, document)
    if not isinstance(table, dict):
        raise UsageError(path, "is no JSON object of parameters")
    unknown = sorted(set(table) - set(OPTIONS))
    if unknown:
        raise UsageError(path, f"has no parameter {unknown[0]!r}", expected=", ".join(OPTIONS))
    if table.get("group") == "row":
        table["group"] = WHOLE_ROW
    return table


def _checked_parameters(path: Path) -> dict[str, object]:
    """Parameters of a file; raises UsageError where a number is wanted and true or false given."""
    table = _read_parameters(path)
    for parameter in PARAMETERS:
        value = table.get(parameter.field)
        if isinstance(value, bool) and not parameter.is_flag:
            # Python takes True for 1.
            raise UsageError(
                f"{path}: {parameter.field}", "must be an integer", found=str(value).lower()
            )
    return table


def _hardware_table(path: Path, document: dict[str, object]) -> dict[str, object]:
    unknown = sorted(set(document) - {"hardware"})
    if unknown:
        raise UsageError(path, f"unknown table or key {unknown[0]!r}", expected="[hardware]")
    table = document.get("hardware", {})
    if not isinstance(table, dict):
        raise UsageError(path, "hardware must be a table", expected="[hardware]")
    return table


def build_config(
    values: dict[str, object],
    given: dict[str, tuple[object, str]],
    kind: type[HeadConfig] = HeadConfig,
) -> HeadConfig:
    """A `HeadConfig`; a bad parameter is told with the option that set it.

    Raises
    ------
    UsageError
        The parameters are out of range or contradict each other.
    """
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        message = str(error)
        field = message.split(" ", 1)[0]
        where = given[field][1] if field in given else OPTIONS.get(field, "hardware parameters")
        raise UsageError(where, message) from None


def _shown(field: str, value: object) -> object:
    """A parameter's value as the option has it."""
    return "row" if field == "group" and value == WHOLE_ROW else value


def hardware_config(arguments: argparse.Namespace) -> HeadConfig:
    """The configuration that options and parameter file describe; raises UsageError.

    With a memory among the options its buffer fits that memory.
    """
    given = given_parameters(arguments)
    values = {field: value for field, (value, _) in given.items()}
    if arguments.memory is None:
        return build_config(values, given)
    return _fitting_config(values, given, arguments)


def _fitting_config(
    values: dict[str, object],
    given: dict[str, tuple[object, str]],
    arguments: argparse.Namespace,
    kind: type[HeadConfig] = HeadConfig,
) -> HeadConfig:
    """A `HeadConfig` whose burst and buffer, unless given, fit memory and clock of the options."""
    others = {field: value for field, value in values.items() if field not in BUFFER_FIELDS}
    sizes = {field: values[field] for field in BUFFER_FIELDS if field in values}
    config = build_config(others, given, kind)
    if all(isinstance(value, int) and value > 0 for value in sizes.values()):
        memory = memory_model(arguments)
        sizing = choose(memory, config.bus_bits, clock_hz(arguments), config.channels, **sizes)
        sizes = {field: getattr(sizing, field) for field in BUFFER_FIELDS}
    return build_config(others | sizes, given, kind)


def config_for_image(
    arguments: argparse.Namespace,
    image: "Image",
    k: int | None,
    functions: Iterable[str] = (),
    rows: int = 0,
    kind: type[HeadConfig] = HeadConfig,
) -> HeadConfig:
    """The configuration for running an image: its layout, the user's parameters for the rest.

    Sizes that the user leaves open grow with the image and with `k`, so that any image runs, and
    the buffer of reads fits the memory (`sim.memory.sizing`).

    Parameters
    ----------
    arguments : argparse.Namespace
    image : Image
    k : int or None
        Results per state.
    functions : iterable of str
        Of `RUN_FUNCTIONS`, those that the run uses.
    rows : int
        Rows for which hardware whose size is left open is built, if the image has fewer: shards of
        about one size then share one simulator.
    kind : type
        Of the configuration.

    Raises
    ------
    UsageError
        An option contradicts the image, is too small for it or for `k`, or leaves out a function
        that is used.
    """
    given = given_parameters(arguments)
    values = {field: value for field, (value, _) in given.items()}
    for field in functions:
        if field in given and given[field][0] is False:
            where = given[field][1]
            raise UsageError(where, f"{field} is False, but {OPTIONS[field]} needs it")
        values[field] = True
    for field, packed in image.config_fields.items():
        if field in given and given[field][0] != packed:
            value, where = given[field]
            raise UsageError(
                where,
                f"{field} is {_shown(field, value)}, but {image.path} was packed with {field} "
                f"{_shown(field, packed)}",
            )
        values[field] = packed
    for field, needed, what in (
        ("max_dim", image.dim, f"{image.path} has {image.dim} columns"),
        ("max_rows", image.rows, f"{image.path} has {image.rows} rows"),
        ("k", k or 1, f"{k} results are asked for (-k)"),
    ):
        if field not in given:
            size = max(needed, rows) if field == "max_rows" else needed
            grown = 1 << (size - 1).bit_length()
            values[field] = max(_DEFAULTS[field], grown if field != "k" else size)
        elif isinstance(given[field][0], int) and given[field][0] < needed:
            raise UsageError(given[field][1], f"is {given[field][0]}, but {what}")
    if values["max_rows"] > 2**31 - 1:
        values["max_rows"] = 2**31 - 1
    return _fitting_config(values, given, arguments, kind)
