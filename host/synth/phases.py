"""How far Yosys and nextpnr are, from what they print."""

import re

_PASS = re.compile(r"^(\d+)\.(\d+)\. Executing")
_SOLVE = re.compile(r"at iteration #(\d+), type")
_REFINE = re.compile(r"^Info:   at iteration #(\d+): temp")
_ARCS = re.compile(r"^Info: Routing (\d+) arcs")
_ROUTED = re.compile(r"^Info:\s+\d+ \|.*\|\s*(\d+)\s*\|")

PACKING, PLACING, ROUTING = "packing", "placing", "routing"


class SynthesisPhase:
    """Yosys by the passes of its script's longest command.

    Attributes
    ----------
    fraction : float
        Done, 0 to 1: an estimate.
    """

    PASSES = 55
    """About as many a synthesis for any family has."""

    def __init__(self):
        self.fraction = 0.0

    def line(self, text: str) -> None:
        """Take a line of the log."""
        if match := _PASS.match(text):
            self.fraction = max(self.fraction, min(1.0, int(match[2]) / self.PASSES))


class PlacementPhase:
    """Where nextpnr's run is.

    Attributes
    ----------
    name : str
        `PACKING`, `PLACING` or `ROUTING`.
    fraction : float
        Done of all three, 0 to 1: an estimate, since neither placer nor router knows when it ends.
    """

    # Shares of the time at 32 lanes: the analytic placer, its refinement, the router.
    _SOLVED, _REFINED = 0.35, 0.7
    _ITERATIONS = 25

    def __init__(self):
        self.name = PACKING
        self.fraction = 0.0
        self._arcs = 0

    def line(self, text: str) -> None:
        """Take a line of the log."""
        if match := _SOLVE.search(text):
            self.name = PLACING
            self._reach(self._SOLVED * min(1.0, int(match[1]) / self._ITERATIONS))
        elif match := _REFINE.match(text):
            self.name = PLACING
            share = min(1.0, int(match[1]) / self._ITERATIONS)
            self._reach(self._SOLVED + share * (self._REFINED - self._SOLVED))
        elif match := _ARCS.match(text):
            self.name = ROUTING
            self._arcs = int(match[1])
            self._reach(self._REFINED)
        elif self._arcs and (match := _ROUTED.match(text)):
            share = 1 - min(1.0, int(match[1]) / self._arcs)
            self._reach(self._REFINED + share * (1 - self._REFINED))

    def _reach(self, fraction: float) -> None:
        self.fraction = max(self.fraction, fraction)
