"""Progress on stderr where that is no terminal."""

import pytest

from host import console
from host.console import stages, time_left


@pytest.mark.parametrize(
    "seconds, done, left, text",
    [
        (5, 10, 10, ""),  # too early to tell
        (60, 0, 10, ""),
        (60, 10, 0, ""),
        (60, 10, 5, ", 30 s left"),
        (60, 1, 30, ", 30 min left"),
    ],
)
def test_the_time_left_follows_from_the_steps_done(seconds, done, left, text):
    assert time_left(seconds, done, left) == text


def test_a_stage_that_lasts_says_how_far_it_is(capsys, monkeypatch):
    now = iter([0.0, 1.0, 20.0, 21.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(now))
    with stages() as progress:
        for done in (0, 1, 2):
            progress("simulating", done, 6)
        progress("drawing", 0, 1)
    assert capsys.readouterr().err == "simulating\nsimulating 2/6, 40 s left\ndrawing\n"
