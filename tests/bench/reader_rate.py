"""The reader's rate on a memory of any latency, beat by beat in Amaranth's simulator.

python -m tests.bench.reader_rate
"""

import random
from collections.abc import Iterator

from hw.config import HeadConfig
from hw.reader import Reader
from tests.blocks.axi_memory import ReadMemory, pattern
from tests.blocks.streams import StreamMonitor, receiver, sender, simulate

CONFIG = HeadConfig()
"""512 bits; the reader whose area and clock `tests.bench.place` measures."""
LATENCIES = (20, 40, 80, 160)
BEATS = 6000
ADDRESS = 0x800
"""Not at the beginning of a page, so that the first burst is short."""


def stalled_quarter() -> Iterator[bool]:
    """The sink's READY: low in 10 of every 40 clocks, in random order."""
    rng = random.Random("sink")
    while True:
        yield from rng.sample([True] * 30 + [False] * 10, 40)


def rate(latency: int, stalled: bool, config: HeadConfig = CONFIG) -> tuple[float, int]:
    """Beats a clock from the first to the last, and the clocks in which RREADY was low.

    Parameters
    ----------
    latency : int
        Clocks from an address to its first beat.
    stalled : bool
        The sink is not ready in a quarter of all clocks.
    config : HeadConfig

    Raises
    ------
    AssertionError
        A beat was lost, changed or out of order.
    """
    reader = Reader(config)
    memory = ReadMemory(reader, config.bus_bits, latency)
    output = StreamMonitor(reader.o)
    refused = []

    async def watch(ctx):
        async for _, _, ready in ctx.tick().sample(reader.rready):
            if not ready:
                refused.append(ready)

    simulate(
        reader,
        sender(reader.command, [{"address": ADDRESS, "beats": BEATS}]),
        receiver(reader.o, BEATS, stalled_quarter() if stalled else None),
        background=[memory.run, output.run, watch],
        deadline=2 * BEATS + 1000,
    )
    bus_bytes = config.bus_bits // 8
    expected = [pattern(ADDRESS + beat * bus_bytes, config.bus_bits) for beat in range(BEATS)]
    assert output.words == expected, "beats differ from the memory"
    return BEATS / (output.cycles[-1] - output.cycles[0] + 1), len(refused)


def main() -> int:
    passed = True
    for stalled, least in ((False, 0.9995), (True, 0.7495)):
        what = "25 % of the sink's clocks stalled" if stalled else "no stalls"
        for latency in LATENCIES:
            found, refused = rate(latency, stalled)
            good = found >= least and not refused
            passed &= good
            print(
                f"  latency {latency:>3}, {what:<34} {found:.4f} beats/clock, at least {least}; "
                f"RREADY low in {refused} clocks  {'ok' if good else 'FAILED'}",
                flush=True,
            )
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
