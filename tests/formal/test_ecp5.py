"""The blocks that are instantiated on the ECP5 are equal to the portable forms of simulations."""

from pathlib import Path

import pytest
from amaranth.hdl import Assert, Assume, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring

from hw.family import ECP5, GENERIC, Family
from hw.multiplier import Multiplier
from hw.ram import BlockRAM
from tests.formal.prover import Refuted, prove

pytestmark = pytest.mark.long

MODELS = Path(__file__).parent
MULTIPLIER_MODEL = MODELS / "mult18x18d.v"
MEMORY_MODEL = MODELS / "dp16kd.v"


def in_form_for(family: str, block: wiring.Component) -> Module:
    """Settle `block` on its form for a family, and let the caller add to that."""
    form = block.elaborate(Family(family))
    block.elaborate = lambda platform: form
    return form


def compare_products(a_bits, b_bits, folder, change=lambda dsp: None):
    """Prove the products of the two forms equal in every clock."""
    m = Module()
    a, b = Signal(signed(a_bits)), Signal(signed(b_bits))
    products = []
    for name in (ECP5, GENERIC):
        m.submodules[name] = multiplier = Multiplier(a_bits, b_bits)
        form = in_form_for(name, multiplier)
        m.d.comb += [multiplier.a.eq(a), multiplier.b.eq(b)]
        products.append(multiplier.product)
        if name == ECP5:
            change(form.submodules.dsp)
    # The registers may hold anything at first.
    clocks = Signal(range(Multiplier.LATENCY + 1))
    filled = clocks == Multiplier.LATENCY
    m.d.sync += clocks.eq(Mux(filled, clocks, clocks + 1))
    m.d.comb += Assert(~filled | (products[0] == products[1]))
    prove(m, [a, b], [MULTIPLIER_MODEL], folder, Multiplier.LATENCY + 1)


# Those of the lanes, of two lanes in one, of the scales and terms, and the widest.
@pytest.mark.parametrize(
    ("a_bits", "b_bits"), [(4, 8), (8, 8), (8, 16), (16, 16), (17, 8), (18, 17), (12, 17), (18, 18)]
)
def test_products_are_those_of_the_portable_multiplier(a_bits, b_bits, tmp_path):
    compare_products(a_bits, b_bits, tmp_path)


@pytest.mark.parametrize(
    "register", ["REG_INPUTA_CLK", "REG_INPUTB_CLK", "REG_PIPELINE_CLK", "REG_OUTPUT_CLK"]
)
def test_a_register_that_is_not_there_is_found(register, tmp_path):
    def leave_out(dsp):
        del dsp.parameters[register]

    with pytest.raises(Refuted, match="Assert failed"):
        compare_products(8, 16, tmp_path, leave_out)


def compare_memories(width, depth, parts, folder, change=lambda part: None):
    """Prove that the words read from any one address of the two forms are equal in every clock.

    The induction needs the words of that address in the memories and on their way to the output.
    """
    m = Module()
    vendor, twin = BlockRAM(width, depth), BlockRAM(width, depth)
    m.submodules += [vendor, twin]
    vendor_form, twin_form = in_form_for(ECP5, vendor), in_form_for(GENERIC, twin)
    inputs = {
        name: Signal.like(getattr(twin, name), name=name)
        for name, member in twin.signature.members.items()
        if member.flow.name == "In"
    }
    for ram in (vendor, twin):
        m.d.comb += [getattr(ram, name).eq(signal) for name, signal in inputs.items()]
    address, write_address = inputs["read_address"], inputs["write_address"]
    reads, writes = inputs["read_enable"], inputs["write_enable"]

    watched = Signal.like(address)
    before = Signal.like(watched)
    begun = Signal()
    m.d.sync += [before.eq(watched), begun.eq(1)]
    m.d.comb += [
        Assume(~begun | (watched == before)),
        Assume((watched < depth) & (address < depth) & (write_address < depth)),
        # Ruled out by the docstring of the block.
        Assume(~(reads & writes & (address == write_address))),
    ]

    storage = twin_form.submodules.storage
    (read_port,) = storage.read_ports
    watching = storage.read_port(domain="comb")
    m.d.comb += watching.addr.eq(watched)
    words, read_words = [], []
    for index in range(parts):
        part = getattr(vendor_form.submodules, f"part{index}")
        words.append(Signal(36, name=f"word{index}"))
        read_words.append(Signal(36, name=f"read_word{index}"))
        part.ports["WATCHED"] = (Cat(watched, Const(0, 14 - len(watched))), "i")
        part.ports["WATCHED_WORD"] = (words[index], "o")
        part.ports["READ_WORD"] = (read_words[index], "o")
        bits = part.parameters["DATA_WIDTH_A"]
        change(part)
    word, read_word = (
        Cat(whole[:bits] for whole in of_parts)[:width] for of_parts in (words, read_words)
    )

    # A word that has been written since the proof began, and where it has got to.
    written, read_holds, output_holds = Signal(), Signal(), Signal()
    with m.If(writes & (write_address == watched)):
        m.d.sync += written.eq(1)
    with m.If(reads):
        m.d.sync += read_holds.eq(written & (address == watched))
    with m.If(inputs["output_enable"]):
        m.d.sync += output_holds.eq(read_holds)
    m.d.comb += [
        Assert(~written | (word == watching.data)),
        Assert(~read_holds | (read_word == read_port.data)),
        Assert(~output_holds | (vendor.read_data == twin.read_data)),
    ]
    prove(m, [watched, *inputs.values()], [MEMORY_MODEL], folder, 6)


# Every width of a word, whole and in part, and several blocks side by side.
@pytest.mark.parametrize(
    ("width", "depth", "parts"),
    [
        (36, 512, 1),
        (20, 300, 1),
        (40, 5, 2),
        (72, 512, 2),
        (18, 1024, 1),
        (9, 2048, 1),
        (20, 2000, 3),
        (4, 4096, 1),
        (2, 8192, 1),
        (1, 16384, 1),
    ],
)
def test_words_are_those_of_the_portable_memory(width, depth, parts, tmp_path):
    compare_memories(width, depth, parts, tmp_path)


@pytest.mark.parametrize("port", ["CEA", "CEB", "OCEB", "ADA6", "ADB13", "DIA0", "DOB17"])
def test_a_wrong_connection_is_found(port, tmp_path):
    def disconnect(part):
        value, kind = part.ports[port]
        part.ports[port] = (Const(1), "i") if kind == "i" else (Signal(name="open"), "o")
        if port == "OCEB":
            part.ports["OCEA"] = part.ports[port]

    with pytest.raises(Refuted, match="Assert failed"):
        compare_memories(36, 512, 1, tmp_path, disconnect)
