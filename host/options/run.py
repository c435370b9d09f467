"""What is run and what is wanted of it, as options of every command that runs hidden states."""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from host.errors import UsageError, UserError
from host.files.output import check_output
from host.options import paths
from hw.config import MAX_K

DEFAULT_K = 64


def add_run_options(parser: argparse.ArgumentParser, image: str, k: str, functions: str) -> None:
    """Add images, states, results and functions.

    Parameters
    ----------
    parser : argparse.ArgumentParser
    image, k, functions : str
        What the command's help says of several images, of the most results, and of where the
        hardware's optional functions come from.
    """
    parser.add_argument(
        "images",
        type=paths.path,
        nargs="+",
        metavar="IMAGE",
        help=f"image from unembed pack; or all shards of a vocabulary in their order, {image}",
    )
    parser.add_argument(
        "--hidden",
        type=paths.path,
        required=True,
        metavar="FILE",
        help=".npy or .npz, float [N, d]",
    )
    parser.add_argument(
        "--key", default="hidden", help="array of an .npz file (default %(default)s)"
    )
    parser.add_argument(
        "-k", type=int, help=f"results per state (default {DEFAULT_K}, at most {k})"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N states")
    parser.add_argument(
        "--check", action="store_true", help="compare with the golden model, exit 1 on a mismatch"
    )
    parser.add_argument(
        "-o",
        "--out",
        type=paths.path,
        metavar="FILE.npz",
        help="write ids, scores, logits, counters and what else was asked for; logits are those of "
        "the projection, and if the model scales or caps its own, model_logits are these",
    )
    parser.add_argument("--json", action="store_true", help="results as JSON")
    parser.add_argument(
        "--ids",
        type=paths.path,
        metavar="FILE",
        help=".npy, integers [N, M], [1, M] for all states or [N], one for each: rows whose exact "
        "scores are wanted, which the host computes; with --logsumexp their log-probabilities as "
        "well, and with one id per state, the token that follows it, the perplexity",
    )
    group = parser.add_argument_group("optional functions", functions)
    group.add_argument(
        "--mask",
        type=paths.path,
        metavar="FILE",
        help=".npy, int32 [N, ceil(V/32)]: bit v %% 32 of word v // 32 is 1 where row v is allowed",
    )
    group.add_argument(
        "--all-logits",
        action="store_true",
        help="return the logits of all rows as well, those of the projection",
    )
    group.add_argument(
        "--logsumexp",
        action="store_true",
        help="return log(sum(exp(logit / temperature))) over all allowed rows as well, with the "
        "logits of the model",
    )
    group.add_argument("--temperature", type=float, metavar="T", help="for --logsumexp (default 1)")


def check_run_options(arguments: argparse.Namespace, others: Sequence[Path] = ()) -> None:
    """Check the options before anything runs; `others` are outputs of other options.

    Raises
    ------
    UsageError
        A value is out of range, or two outputs are one file.
    UserError
        An output cannot be written, or would overwrite an input.
    """
    if arguments.k is not None and not 1 <= arguments.k <= MAX_K:
        raise UsageError("-k", f"must be in 1..{MAX_K}", found=arguments.k)
    if arguments.limit is not None and arguments.limit < 1:
        raise UsageError("--limit", "must be at least 1", found=arguments.limit)
    if arguments.temperature is not None:
        if not arguments.logsumexp:
            raise UsageError("--temperature", "is of use only with --logsumexp")
        if not 0 < arguments.temperature < math.inf:
            raise UsageError(
                "--temperature", "must be finite and above 0", found=f"{arguments.temperature:g}"
            )
    _check_outputs(arguments, list(others))


def _check_outputs(arguments: argparse.Namespace, paths: list[Path]) -> None:
    if arguments.out is not None:
        check_output(arguments.out)
        if arguments.out in paths:
            raise UsageError("-o", f"is the file of another option: {arguments.out}")
        paths.append(arguments.out)
    inputs = [(path, "image") for path in arguments.images]
    inputs += [
        (arguments.hidden, "hidden states"),
        (arguments.mask, "mask"),
        (arguments.ids, "ids"),
        (getattr(arguments, "config", None), "parameters"),
        *((Path(csr), "register list") for csr in getattr(arguments, "csr", ())),
    ]
    for out in paths:
        for path, what in inputs:
            if path is not None and out.exists() and path.exists() and out.samefile(path):
                raise UserError(out, f"would overwrite the {what}")
