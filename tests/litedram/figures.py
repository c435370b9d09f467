"""Measures what the accelerator gets from LiteDRAM's controllers, as this folder's README shows.

python -m tests.litedram.figures
"""

import numpy as np

from tests.cosim.heads import random_head
from tests.litedram.device import LiteDramDevice
from tests.litedram.workload import CONFIG, CONTROLLERS, placed, read_alone, run

ROWS, DIM, K = 3000, 256, 16


def main() -> None:
    job = placed(random_head(CONFIG, ROWS, DIM, np.random.default_rng(ROWS)), K)
    print(f"head of {ROWS} x {DIM}, {CONFIG.bus_bits} bits; beats per clock, first beat in clocks")
    print(f"{'':22}{'reader':>8}{'job':>9}{'share':>10}{'reader':>8}{'job':>5}")
    for name, controller in CONTROLLERS.items():
        with LiteDramDevice(CONFIG, controller) as device:
            traffic = run(device, job)
            alone = read_alone(device, job)
        share = f"{traffic.rate / alone.rate:.2%}"
        print(
            f"{name:22}{alone.rate:8.4f}{traffic.rate:9.4f}{share:>10}{alone.latency:8}"
            f"{traffic.latency:5}"
        )


if __name__ == "__main__":
    main()
