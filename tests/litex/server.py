"""LiteX's own server in front of a simulation, so that its remote client connects unchanged."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.litex.system import Simulation

BRIDGE_CYCLES = 64
"""Clocks that pass besides for every access; a real bridge takes more."""


class CommUART:
    """The link of a simulation: nothing gets lost, as over UART.

    The server tells its clients the name of this class.
    """

    def __init__(self, simulation: Simulation):
        self.simulation = simulation
        self.writes = 0
        """Records brought."""

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass

    def read(self, address, length=None, burst="incr"):
        words = [
            self.simulation.read(address + (4 * index if burst == "incr" else 0))
            for index in range(length or 1)
        ]
        self.simulation.run(BRIDGE_CYCLES)
        return words if length is not None else words[0]

    def write(self, address, words, burst="incr"):
        self.writes += 1
        for index, word in enumerate(words):
            self.simulation.write(address + 4 * index, word)
        self.simulation.run(BRIDGE_CYCLES)


class CommUDP(CommUART):
    """A link whose writes are datagrams: of every so many one is lost."""

    lose_every = 7
    damage = False
    """Of long ones a word is wrong."""

    def write(self, address, words, burst="incr"):
        if (self.writes + 1) % self.lose_every == 0:
            self.writes += 1
            return
        if self.damage and len(words) > 8:
            words = [*words[:-1], words[-1] ^ 1]
        super().write(address, words, burst)


@contextmanager
def served(link: CommUART) -> Iterator[int]:
    """The TCP port of a server for a link; the link is nobody's else afterwards."""
    # Here, since the tests are collected where LiteX is not installed.
    from litex.tools.litex_server import RemoteServer

    server = RemoteServer(link, "localhost", 0)
    server.open()
    listening = server.socket

    def serve():
        with suppress(OSError):
            server._serve_thread()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        # It ends the accept() of the thread, which LiteX's own server never leaves.
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
        server.close()
