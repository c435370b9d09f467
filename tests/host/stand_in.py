"""The files of a memory-mapped accelerator, as ordinary files, and a machine behind them."""

import mmap
import os
import re
import socket
import threading
import time
from pathlib import Path

import numpy as np

from host.devices.dma_buffer import DmaBuffer
from host.devices.kernel import Kernel
from host.devices.mmap import MmapDevice
from host.devices.register_page import RegisterPage
from host.devices.uio import UioRegisters
from hw.register_map import OFFSETS

PAGE = 4096
REGISTERS_ADDRESS = 0xA000_0000
RUN_CYCLES = 1 << 14
"""Clocks that pass at the machine between two looks at its interrupt."""

ENABLE = (1).to_bytes(4, "little")


CLOCK_HZ = 1e4
"""So slow that no job meets a deadline by chance."""


def uio_device(kernel: Kernel) -> MmapDevice:
    """The device of a stand-in through UIO."""
    return MmapDevice(UioRegisters("unembed0", kernel), DmaBuffer("udmabuf0", kernel), CLOCK_HZ)


def mem_device(kernel: Kernel) -> MmapDevice:
    """The device of a stand-in through /dev/mem."""
    registers = RegisterPage(kernel.nodes / "mem", "mem", REGISTERS_ADDRESS, kernel)
    return MmapDevice(registers, DmaBuffer("udmabuf0", kernel), CLOCK_HZ)


def failing(number):
    """A system call that fails."""

    def fail(*arguments):
        raise OSError(number, os.strerror(number))

    return fail


class Words(np.ndarray):
    """Registers of a mapped file, which the machine's are written to and taken from."""

    stand_in = None

    def __getitem__(self, index):
        assert type(index) is int, "a register is accessed alone"
        super().__setitem__(index, self.stand_in.read_register(4 * index))
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        assert type(index) is int, "a register is accessed alone"
        super().__setitem__(index, value)
        self.stand_in.write_register(4 * index, int(super().__getitem__(index)))


class StandIn(Kernel):
    """A UIO device, /dev/mem with the same registers, and a DMA buffer, with a machine behind them.

    Registers are a file: a word that is written there is then written to the machine, one that is
    read is put there before. Memory is two copies, the CPU's, a file, and the machine's, which see
    each other only through cache maintenance. The interrupt is a socket with the messages of UIO.

    Parameters
    ----------
    folder : Path
        Of the files; stand-ins with different numbers may share it.
    machine
        A device of the driver, simulated or in plain Python; its memory is what the DMA buffer has.
    number : int
        Of the UIO device and of the buffer.
    coherent : bool
        What dma_coherent says.
    page_offset : int
        Where in its page the UIO device begins.

    Attributes
    ----------
    cpu : uint8 [size]
        The CPU's copy of the memory.
    syncs : list of tuple
        Cache maintenance so far: for_cpu or for_device, direction, offset and size.
    enabled : int
        How often the interrupt was.
    """

    def __init__(self, folder: Path, machine, number=0, coherent=False, page_offset=0):
        super().__init__(folder / "dev", folder / "class")
        self.machine = machine
        self.syncs = []
        self.enabled = 0
        self.turn = threading.RLock()
        self._page_offset = page_offset
        self._attributes = {}
        self._sync_values = {}
        self._count = 0
        self._sockets = ()
        self._thread = None
        self._closing = False
        base, size = machine.memory_base, machine.memory_bytes
        self.uio = self.classes / "uio" / f"uio{number}"
        write_files(self.uio, {"name": f"unembed{number}"})
        where = {"addr": hex(REGISTERS_ADDRESS), "size": hex(PAGE), "offset": hex(page_offset)}
        write_files(self.uio / "maps" / "map0", where)
        self.buffer = self.classes / "u-dma-buf" / f"udmabuf{number}"
        attributes = {"phys_addr": f"0x{base:016x}", "size": size, "sync_mode": 1}
        attributes |= dict.fromkeys(("sync_offset", "sync_size", "sync_direction"), 0)
        attributes |= {"sync_for_cpu": 0, "sync_for_device": 0, "dma_coherent": int(coherent)}
        write_files(self.buffer, attributes)
        self.nodes.mkdir(exist_ok=True)
        sparse(self.nodes / f"uio{number}", 2 * PAGE)
        sparse(self.nodes / "mem", REGISTERS_ADDRESS + PAGE)
        node = self.nodes / f"udmabuf{number}"
        sparse(node, size)
        with open(node, "r+b") as file:
            self.cpu = np.frombuffer(mmap.mmap(file.fileno(), size), np.uint8)

    # What the kernel does.

    def open(self, path, flags):
        descriptor = super().open(path, flags)
        self._attributes[descriptor] = path.name.removeprefix("sync_")
        return descriptor

    def words(self, mapping, offset, size):
        words = super().words(mapping, offset, size).view(Words)
        words.stand_in = self
        return words

    def write(self, attribute, value):
        os.ftruncate(attribute, 0)
        super().write(attribute, value)
        name = self._attributes[attribute]
        if name in ("offset", "size", "direction"):
            self._sync_values[name] = value
        else:
            assert value == 1
            self._maintain(name, **self._sync_values)

    def _maintain(self, name, direction, offset, size):
        assert 0 <= offset <= offset + size <= self.machine.memory_bytes
        self.syncs.append((name, direction, offset, size))
        address, part = self.machine.memory_base + offset, slice(offset, offset + size)
        with self.turn:
            if name == "for_device" and direction in (0, 1):
                self.machine.write_memory(address, self.cpu[part])
            if name == "for_cpu" and direction in (0, 2):
                self.cpu[part] = self.machine.read_memory(address, size)

    def events(self, node):
        if not self._sockets:
            self._sockets = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._thread = threading.Thread(target=self._raise_interrupts, daemon=True)
            self._thread.start()
        return self._sockets[0].fileno()

    def notify(self):
        """Count an interrupt and tell of it, as the kernel does when it comes."""
        self._count += 1
        self._sockets[1].send(self._count.to_bytes(4, "little"))

    def _raise_interrupts(self):
        while not self._closing and self._sockets[1].recv(4) == ENABLE:
            self.enabled += 1
            while not self._closing:
                with self.turn:
                    if self._run():
                        self.notify()
                        break
                time.sleep(1e-3)

    def close(self):
        """End what raises the interrupt."""
        self._closing = True
        if self._sockets:
            self._sockets[0].shutdown(socket.SHUT_RDWR)
            self._thread.join()
            for end in self._sockets:
                end.close()
            self._sockets = ()

    # What the machine does.

    def read_register(self, offset):
        with self.turn:
            if offset == OFFSETS["ISR"] and not self._sockets:
                self._run()  # without a thread that does it, clocks pass with every look
            return self.machine.read_register(offset)

    def write_register(self, offset, value):
        with self.turn:
            self.machine.write_register(offset, value)

    def _run(self) -> bool:
        """Let clocks pass; whether the interrupt is raised."""
        try:
            self.machine.wait_interrupt(RUN_CYCLES)
        except TimeoutError:
            return False
        return True


class StandIns(Kernel):
    """Stand-ins of different numbers in one folder, as one kernel."""

    def __init__(self, stand_ins: list[StandIn]):
        super().__init__(stand_ins[0].nodes, stand_ins[0].classes)
        self._stand_ins = stand_ins
        self._owners = {}

    def open(self, path, flags):
        number = re.search(r"(?:uio|udmabuf)(\d+)(?:/sync_\w+)?$", str(path)).group(1)
        owner = self._stand_ins[int(number)]
        descriptor = owner.open(path, flags)
        self._owners[descriptor] = owner
        return descriptor

    def map(self, descriptor, where, size, offset=0):
        mapping = super().map(descriptor, where, size, offset)
        self._owners[mapping] = self._owners[descriptor]
        return mapping

    def words(self, mapping, offset, size):
        return self._owners.pop(mapping).words(mapping, offset, size)

    def write(self, attribute, value):
        self._owners[attribute].write(attribute, value)

    def events(self, node):
        return self._owners[node].events(node)


def write_files(folder: Path, texts: dict[str, object]):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n")


def sparse(path: Path, size: int):
    """A file of zeros without blocks, unless it is there."""
    if not path.exists():
        path.touch()
        os.truncate(path, size)
