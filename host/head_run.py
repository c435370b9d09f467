"""Hidden states through a head, as commands run them: inputs, run, check and report."""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from host.checks.check import check_results
from host.console import StageProgress, print_json
from host.errors import UsageError, UserError
from host.files.arrays import load_array
from host.image import Image
from host.jobs.hidden import check_hidden
from host.jobs.parameters import prepare_vectors
from host.masks import allowed_rows, load_mask
from host.messages import say
from host.options.hardware import RUN_FUNCTIONS
from host.options.run import DEFAULT_K
from host.reports.figures import Figures
from host.reports.model_results import ModelResults
from host.reports.report import document, print_check, print_results
from host.results import Results
from host.scoring import RowScores, load_ids, score_ids
from host.shards import ShardedHead, ShardedImage

if TYPE_CHECKING:
    from host.driver import Head


@dataclass(frozen=True)
class Request:
    """What is run and what is wanted of it."""

    arguments: argparse.Namespace
    """Those of `host.options.run`, checked."""
    images: Sequence[Image]
    """One for each device."""
    image: Image | ShardedImage
    """All of them."""
    hidden: np.ndarray
    """float64 [N, d]."""
    mask: np.ndarray | None
    """int32 [N, ceil(V / 32)]."""
    ids: np.ndarray | None
    """Rows whose scores are wanted, integers [N, M]."""

    @property
    def functions(self) -> list[str]:
        """Optional functions that the run uses, of `host.options.hardware.RUN_FUNCTIONS`."""
        return [field for field in RUN_FUNCTIONS if getattr(self.arguments, field)]

    def k(self, most: int) -> int:
        """Results per state, from hardware that gives at most so many."""
        return self.arguments.k if self.arguments.k is not None else min(DEFAULT_K, most)

    @property
    def temperature(self) -> float:
        """Of the log-sum-exp and of log-probabilities."""
        return self.arguments.temperature or 1.0

    @property
    def head_temperature(self) -> float:
        """The same for the accelerator, whose logits are those of the projection."""
        if not self.arguments.logsumexp:
            return 1.0
        return self.image.transform.temperature(self.temperature)

    def check(self, hidden_bits: int) -> None:
        """Check what is checked only with the hardware known, before it is built or loaded.

        Raises
        ------
        UserError
            States do not suit the row terms, or an image is damaged.
        """
        try:
            prepare_vectors(self.image, self.hidden, hidden_bits)
        except UserError as error:
            raise UserError(self.arguments.hidden, str(error)) from None
        if self.arguments.logsumexp:
            prepare_vectors(self.image, self.hidden, hidden_bits, self.head_temperature)
        for shard in self.images:
            shard.verify()
        _warn_of_missing_rows(self.images)


def load_request(arguments: argparse.Namespace) -> Request:
    """Load what is to be run.

    Raises
    ------
    UsageError
        An option contradicts the image.
    UserError
        A file cannot be read or does not fit the image.
    """
    images = [Image(path) for path in arguments.images]
    image = ShardedImage(images) if len(images) > 1 else images[0]
    if arguments.logsumexp and image.transform.softcap is not None:
        raise UsageError(
            "--logsumexp",
            f"adds up logits before a softcap, and {image.path} has one of "
            f"{image.transform.softcap:g}: use --all-logits and add up model_all_logits",
        )
    hidden, states = _hidden(arguments, image.dim)
    mask = ids = None
    if arguments.mask is not None:
        mask = load_mask(arguments.mask, states, image.rows)[: len(hidden)]
    if arguments.ids is not None:
        ids = load_ids(arguments.ids, states, image.rows)[: len(hidden)]
    return Request(arguments, images, image, hidden, mask, ids)


def _hidden(arguments: argparse.Namespace, dim: int) -> tuple[np.ndarray, int]:
    """The states to run, and how many the file holds."""
    hidden = load_array(arguments.hidden, arguments.key)
    if hidden.ndim == 2 and not len(hidden):
        raise UserError(arguments.hidden, "holds no states")
    states = len(hidden) if hidden.ndim == 2 else 1
    try:
        return check_hidden(hidden[: arguments.limit] if hidden.ndim == 2 else hidden, dim), states
    except (TypeError, UserError) as error:
        raise UserError(arguments.hidden, str(error)) from None


def _warn_of_missing_rows(images: Sequence[Image]) -> None:
    """Say so if the images are not the whole vocabulary."""
    first, source = images[0].first_row, images[0].source
    stop = first + sum(image.rows for image in images)
    vocabulary = min(source.rows, source.vocabulary or source.rows)
    if not first and stop >= vocabulary:
        return
    total = f" of {vocabulary}" if stop <= vocabulary else ""
    counted = f"; ids, --ids and --mask count from row {first}" if first else ""
    where = images[0].path if len(images) == 1 else f"{images[0].path} to {images[-1].path}"
    say("warning", f"{where}: rows {first} to {stop - 1}{total} of the vocabulary{counted}")


def run_head(
    request: Request, head: "Head | ShardedHead", k: int, stage: str, progress: StageProgress
) -> tuple[Results, float]:
    """Run the states; the results, and the seconds it took.

    `stage` names the run in the progress.

    Raises
    ------
    UserError, JobError, JobTimeout, DeviceError
        As of `Head.run`.
    """
    progress(stage, 0, len(request.hidden))
    start = time.perf_counter()
    results = head.run(
        request.hidden,
        k,
        lambda done, total: progress(stage, done, total),
        mask=request.mask,
        all_logits=request.arguments.all_logits,
        logsumexp=request.arguments.logsumexp,
        temperature=request.head_temperature,
    )
    return results, time.perf_counter() - start


def system_document(images: Sequence[Image], described: list[dict]) -> dict:
    """What ran, for JSON: the only description, or one for each image with its rows."""
    if len(images) == 1:
        return described[0]
    shards = [
        shard | {"first_row": image.first_row, "rows": image.rows}
        for image, shard in zip(images, described, strict=True)
    ]
    return {"shards": shards}


@dataclass(frozen=True)
class Finished:
    """A run with all that was asked for."""

    results: ModelResults
    figures: Figures
    seconds: float
    comparison: dict | None
    """What was compared with the golden model."""
    differences: list[str]

    def report(self, arguments: argparse.Namespace, system: dict, lines: Sequence[str]) -> int:
        """Show it all; the exit code.

        Parameters
        ----------
        arguments : argparse.Namespace
        system : dict
            What ran, for JSON.
        lines : sequence of str
            What is shown below the figures otherwise.
        """
        if arguments.json:
            print_json(
                system
                | document(self.results, self.figures)
                | {"check": self.comparison, "seconds": self.seconds}
            )
        else:
            print_results(self.results, self.figures)
            for line in lines:
                print(line)
            if self.comparison is not None:
                print_check(self.comparison)
        for line in self.differences:
            say("mismatch", line)
        return int(bool(self.differences))


def finish(
    request: Request,
    results: Results,
    figures: Figures,
    seconds: float,
    hidden_bits: int,
    progress: StageProgress,
) -> Finished:
    """Score the given ids, write the file of results and compare with the golden model.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    given = _given_rows(request, hidden_bits)
    results = ModelResults(
        **vars(results),
        transform=request.image.transform,
        temperature=request.temperature,
        given=given,
    )
    if request.arguments.out is not None:
        results.save(request.arguments.out, figures.arrays())
    comparison, differences = None, []
    if request.arguments.check:
        comparison, differences = check_results(
            results,
            request.image,
            request.hidden,
            hidden_bits,
            request.mask,
            request.head_temperature,
            lambda done, total: progress("golden model", done, total),
            given,
        )
    return Finished(results, figures, seconds, comparison, differences)


def _given_rows(request: Request, hidden_bits: int) -> RowScores | None:
    """Scores of given ids; the logits of rows that the mask forbids are -inf."""
    if request.ids is None:
        return None
    found = score_ids(request.image, request.hidden, request.ids, hidden_bits)
    if request.mask is None:
        return found
    rows = allowed_rows(request.mask, request.image.rows)
    allowed = np.take_along_axis(rows, request.ids, axis=1)
    return replace(found, logits=np.where(allowed, found.logits, -np.inf))
