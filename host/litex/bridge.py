"""The system's registers and memory over its bridge, through LiteX's own remote client.

`litex_server` talks to the board, over UART or Ethernet, and listens on a TCP port; its client is
here. What that client does not do by itself is done here: it answers zeros for reads that were not
answered, and Etherbone's writes are datagrams that nobody acknowledges.
"""

import csv
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from host.device import DeviceError
from host.errors import UserError

RECORD_WORDS = 255
"""Most words of a write that Etherbone carries, and of a read."""

BLOCK_WORDS = 32 * RECORD_WORDS
"""Words that may be on their way. UARTBone takes 0.4 s for them, during which nothing answers."""

TIMEOUT_S = 10.0
"""For an answer."""

GREETING_S = 2.0
"""For the line with which a server begins."""

TRIES = 4
"""Times that writes are sent when they get lost."""

FOREIGN_ANSWER = (AssertionError, AttributeError, IndexError, ValueError, struct.error)
"""What LiteX's decoder of packets raises for what is none."""

LINKS = "Comm"
"""What `litex_server` calls its links begins so."""

DATAGRAMS = "CommUDP"
"""What it calls the link whose writes can get lost."""

INSTALL = "pip install 'unembed[litex]'"


def _client_class():
    try:
        from litex.tools.litex_client import RemoteClient
    except ImportError as error:
        raise UserError(
            "litex", f"LiteX's remote client cannot be imported ({error}): {INSTALL}"
        ) from None

    class Client(RemoteClient):
        """A remote client that knows the link, does not wait for ever or take silence for zeros."""

        link = ""

        def open(self):
            self.socket = socket.create_connection((self.host, self.port), TIMEOUT_S)
            self.socket.settimeout(GREETING_S)
            self._receive_server_info()
            self.binded = True

        def _receive_server_info(self):
            info = self.socket.recv(128)
            self.link = info.decode(errors="replace").partition(":")[0]
            if not self.link.startswith(LINKS):
                self.socket.close()
                raise OSError(f"it begins with {info[:32]!r}")

        def receive_packet(self, *arguments):
            packet = super().receive_packet(*arguments)
            if packet == 0:
                raise TimeoutError("no answer")
            return packet

    return Client


def connect(host: str, port: int, csr: Path) -> "Bridge":
    """The bridge of a system behind a server.

    Parameters
    ----------
    host, port : str, int
        Where `litex_server` listens.
    csr : Path
        The system's ``csr.csv``.

    Raises
    ------
    UserError
        LiteX is not installed, or the file is not of such a system.
    DeviceError
        Nobody answers.
    """
    client_class = _client_class()
    try:
        client = client_class(host=host, port=port, csr_csv=str(csr))
    except OSError as error:
        raise UserError(csr, f"cannot be read: {error.strerror}") from None
    except (KeyError, ValueError, IndexError, csv.Error):
        raise UserError(csr, "is no register list of LiteX (csr.csv)") from None
    try:
        client.open()
    except (OSError, UnicodeError) as error:
        raise DeviceError(f"{host}:{port}: no litex_server answers: {error}") from None
    client.socket.settimeout(TIMEOUT_S)
    # Without it a read that follows a write waits 40 ms for the acknowledgement of the write.
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        return Bridge(client, csr)
    except BaseException:
        client.close()
        raise


class Bridge:
    """Registers by name and memory by address of a LiteX system.

    Parameters
    ----------
    client : RemoteClient
        Open, with the attribute ``link``; see `connect`.
    csr : Path
        The file it has its names from.

    Attributes
    ----------
    name : str
        Where the server is, for messages.
    datagrams : bool
        Writes are datagrams, which nobody acknowledges.

    Raises
    ------
    UserError
        The file is not of such a system.
    DeviceError
        The system does not answer.
    """

    def __init__(self, client, csr: Path):
        self._client = client
        self._csr = csr
        self._given_up = False
        self.name = f"{client.host}:{client.port}"
        self.datagrams = client.link == DATAGRAMS
        self._written = self.read("link_writes")
        if not self.cycles_since(self.read("link_cycles")):
            raise UserError(
                csr, f"is not of the system at {self.name}, where its clock counter stands still"
            )

    def close(self) -> None:
        self._client.close()

    # Words.

    def read_words(self, address: int, count: int) -> list[int]:
        """Words of 32 bits from an address on; raises DeviceError if they do not come."""
        words = []
        while len(words) < count:
            part = min(count - len(words), RECORD_WORDS)
            start = address + 4 * len(words)
            with self._link(f"read at {start:#x}"):
                found = self._client.read(start, part)
                if len(found) != part:
                    raise OSError(f"{len(found)} words came, {part} were asked for")
            words += found
        return words

    def write_words(self, address: int, words: list[int]) -> None:
        """Write words of 32 bits from an address on; raises DeviceError if they do not arrive."""
        for start in range(0, len(words), BLOCK_WORDS):
            block = words[start : start + BLOCK_WORDS]
            self._write_block(address + 4 * start, block)

    def _write_block(self, address: int, words: list[int]) -> None:
        records = [
            (address + 4 * start, words[start : start + RECORD_WORDS])
            for start in range(0, len(words), RECORD_WORDS)
        ]
        if len(records) == 1:
            self._write_record(*records[0])
            return
        for record in records:
            self._send(*record)
        # Besides, the answer says that none is under way any more.
        if self._missing(len(words)):
            for record in records:
                self._write_record(*record)

    def _write_record(self, address: int, words: list[int]) -> None:
        self._send(address, words)
        if not self.datagrams:
            return
        for _ in range(TRIES - 1):
            if not self._missing(len(words)):
                return
            self._send(address, words)
        if self._missing(len(words)):
            raise DeviceError(f"{self.name}: a write at {address:#x} got lost {TRIES} times")

    def _send(self, address: int, words: list[int]) -> None:
        with self._link(f"write at {address:#x}"):
            self._client.write(address, words)

    @contextmanager
    def _link(self, access: str) -> Iterator[None]:
        """Around an access to the server; raises DeviceError if it fails.

        It is the last one then: an answer that comes late would be taken for that of the next.
        """
        if self._given_up:
            raise DeviceError(f"{self.name}: {access}: the link was given up after an error")
        try:
            yield
        except OSError as error:
            raise self._broken(access, error) from None
        except FOREIGN_ANSWER:
            raise self._broken(access, "the answer is none of a litex_server") from None

    def _broken(self, access: str, reason: object) -> DeviceError:
        self._given_up = True
        self.close()
        return DeviceError(f"{self.name}: {access}: {reason}")

    def _missing(self, words: int) -> int:
        """How many of the words sent since the last call got lost."""
        arrived = self.read("link_writes")
        missing = (self._written + words - arrived) & 0xFFFF_FFFF
        self._written = arrived
        if not self.datagrams:
            return 0
        if missing > words:
            raise DeviceError(
                f"{self.name}: another program writes over this bridge as well: device busy"
            )
        return missing

    # Constants, registers and regions by name.

    def constant(self, name: str) -> int:
        """A constant of the system; raises UserError if it is missing."""
        value = self._client.constants.d.get(name)
        if not isinstance(value, int):
            raise self._foreign(f"constant {name}")
        return value

    def region(self, name: str) -> tuple[int, int]:
        """First address and size of a region of memory; raises UserError if it is missing."""
        try:
            region = self._client.mems.d[name]
        except KeyError:
            raise self._foreign(f"region {name}") from None
        return region.base, region.size

    def _foreign(self, what: str) -> UserError:
        return UserError(self._csr, f"has no {what}: is it the csr.csv of this system?")

    def register(self, name: str):
        """A register of the system by name; raises UserError if it has none."""
        try:
            return self._client.regs.d[name]
        except KeyError:
            raise self._foreign(f"register {name}") from None

    def read(self, name: str) -> int:
        """A register of any width."""
        register = self.register(name)
        value = 0
        for word in self.read_words(register.addr, register.length):
            value = value << 32 | word
        return value

    def write(self, name: str, value: int) -> None:
        """Write a register of any width."""
        register = self.register(name)
        shifts = range(32 * (register.length - 1), -1, -32)
        self.write_words(register.addr, [value >> shift & 0xFFFF_FFFF for shift in shifts])

    # Time.

    def cycles_since(self, start: int) -> int:
        """Clocks of the system since the value `start` of ``link_cycles``, up to 2^32."""
        return (self.read("link_cycles") - start) & 0xFFFF_FFFF

    def wait(self, cycles: int) -> None:
        """Return when that many clocks of the system have passed."""
        if not cycles:
            return
        start = self.read("link_cycles")
        time.sleep(cycles / self.constant("config_clock_frequency"))
        while self.cycles_since(start) < cycles:
            pass
