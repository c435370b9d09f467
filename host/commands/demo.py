"""`unembed demo`: a small language model answers on the simulated accelerator."""

import argparse
import sys
from contextlib import ExitStack

import numpy as np
from rich.table import Table
from rich.text import Text

from host.body import Body
from host.checks.verify import golden_results, mismatches
from host.console import print_table, stages
from host.demo import Answer, generate, model_file, packed_model
from host.driver import Head
from host.errors import UsageError
from host.image import Image
from host.messages import say
from host.options.hardware import Purpose, add_hardware_options, config_for_image, pack_options
from host.options.memory import (
    add_simulation_options,
    check_simulation_options,
    clock_hz,
    memory_model,
)
from host.reports.figures import Figures
from host.reports.read_buffer import read_buffer
from host.sampling import softmax
from sim.device import SimDevice

NAME = "demo"
HELP = "let SmolLM2-135M answer a prompt, its head on the simulated accelerator"

DEFAULT_PROMPT = "The capital of France is"
DEFAULT_TOKENS = 16
MOST_K = 64
SHOWN_RANKS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--prompt",
        default=DEFAULT_PROMPT,
        metavar="TEXT",
        help='text to go on from (default "%(default)s")',
    )
    parser.add_argument(
        "--tokens",
        type=int,
        default=DEFAULT_TOKENS,
        metavar="N",
        help="tokens to generate (default %(default)s)",
    )
    add_hardware_options(parser, Purpose.BUILD)
    add_simulation_options(parser)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _print_table(body: Body, answer: Answer, figures: Figures, k: int) -> None:
    results = answer.joined()
    shares = softmax(results.logits)
    ranks = min(SHOWN_RANKS, k)
    table = Table(box=None, padding=(0, 1, 1, 0))
    for rank in range(ranks):
        table.add_column(f"top {rank + 1}", no_wrap=True)
    table.add_column("cycles\nbytes read", justify="right")
    table.add_column("bus", justify="right")
    for n in range(len(answer.tokens)):
        cells = [
            Text(
                f"{body.piece(int(results.ids[n, rank]))!r}\n"
                f"{results.logits[n, rank]:.2f} {100 * shares[n, rank]:4.1f}%"
            )
            for rank in range(ranks)
        ]
        table.add_row(
            *cells,
            f"{results.counters['cycles'][n]:,}\n{figures.bytes_read[n]:,}",
            f"{100 * figures.utilisation[n]:.1f}%",
        )
    print(f"Per token: the {ranks} best, each with its logit and its share among the {k} returned.")
    print_table(table)


def _check_prompt(prompt: str) -> None:
    try:
        prompt.encode()
    except UnicodeEncodeError:
        raise UsageError("--prompt", "must be UTF-8 text", found=ascii(prompt)) from None


def run(arguments: argparse.Namespace) -> int:
    check_simulation_options(arguments)
    if arguments.tokens < 1:
        raise UsageError("--tokens", "must be at least 1", found=arguments.tokens)
    _check_prompt(arguments.prompt)
    with ExitStack() as stack:
        with stages() as progress:
            model = model_file()
            image = Image(packed_model(model, progress, pack_options(arguments)))
            config = config_for_image(arguments, image, None)
            k = min(MOST_K, config.k)
            progress("loading the model's body", 0, 1)
            body = Body(model)
            prompt = body.tokenize(arguments.prompt)
            if not prompt:
                raise UsageError("--prompt", "must have at least one token")
            body.start(len(prompt) + arguments.tokens)
            image.verify()
            buffer = read_buffer(arguments, config)
            buffer.warn()
            device = stack.enter_context(
                SimDevice(config, memory_model(arguments), clock_hz(arguments), progress=progress)
            )
            head = Head(device, image)
        _write(arguments.prompt)
        answer = generate(body, head, prompt, arguments.tokens, k, _write)
        _write("\n\n")
    results = answer.joined()
    figures = Figures(results, config.bus_bytes, float(clock_hz(arguments)))
    _print_table(body, answer, figures, k)
    print(
        f"{len(answer.tokens)} tokens{', the last ends the text' if answer.ended else ''}: "
        f"{figures.line()}"
    )
    if buffer.worth_a_line:
        print(buffer.line())
    with stages() as progress:
        ids, scores = golden_results(
            image,
            np.stack(answer.hidden),
            k,
            config.hidden_bits,
            lambda done, total: progress("golden model", done, total),
        )
    wrong = len(mismatches(results, ids, scores))
    print(f"golden model: all {results.scores.size:,} returned scores compared, {wrong} mismatches")
    if wrong:
        say("error", "the accelerator's results are not those of the golden model")
    return int(wrong > 0)
