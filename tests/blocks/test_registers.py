"""The register file through its AXI4-Lite pins, against a model of the table in Python."""

import random
import re

import pytest

from hw.axi import RESP_OKAY, RESP_SLVERR
from hw.config import HeadConfig
from hw.counters import counter_names
from hw.register_docs import c_header, markdown
from hw.register_map import (
    OFFSETS,
    Access,
    Control,
    Feature,
    counter_registers,
    identification,
    registers,
)
from hw.registers import Registers

from .lite_master import ORDERS, Master, channel_checker, handshake, run
from .streams import STALLS, simulate, stalls, wait_until

CONFIGS = (
    HeadConfig(),
    HeadConfig(bus_bits=64, weight_bits=4, scale_bits=8, scale_signed=True, group=0, k=255),
    HeadConfig(batch=5, channels=8, bias=True, mask=True, all_logits=True, job_queue=True),
    HeadConfig(channels=2, bound=True, all_logits=True, logsumexp=True),
)


def places(config):
    """Byte offset of each register of a build, by name."""
    return {register.name: register.offset for register in registers(config).all}


def arguments(config):
    return [register.name for register in registers(config).arguments]


@pytest.mark.parametrize("config", CONFIGS)
def test_every_register_reads_its_value_after_reset(config):
    async def bench(ctx, dut, master):
        names = places(config)
        expected = dict.fromkeys(names, 0) | {"CONTROL": Control.IDLE} | identification(config)
        found = {name: await master.get(ctx, name) for name in names}
        assert found == expected

    run(bench, config)


def test_identification_follows_the_configuration():
    values = identification(CONFIGS[1])
    expected = {"BUS_BITS": 64, "WEIGHT_BITS": 4, "SCALE_SIGNED": 1, "GROUP": 0, "MAX_K": 255}
    assert {name: values[name] for name in expected} == expected
    assert values["FORMAT"] == CONFIGS[1].format_word
    assert values["MAGIC"].to_bytes(4, "little") == b"UNEM"
    assert values["FEATURES"] == 0
    values = identification(CONFIGS[2])
    assert (values["MAX_VECTORS"], values["CHANNELS"]) == (5, 8)
    assert values["RANKERS"] == CONFIGS[2].rankers
    assert values["FEATURES"] == Feature.BIAS | Feature.MASK | Feature.LOGITS | Feature.JOB_QUEUE
    assert identification(CONFIGS[3])["FEATURES"] == (
        Feature.BOUND | Feature.LOGITS | Feature.LOGSUMEXP
    )


def test_what_is_not_built_is_unmapped_and_the_rest_keeps_its_place():
    for config in CONFIGS:
        mapped = places(config)
        assert mapped.items() <= OFFSETS.items()
        assert ("FLAGS" in mapped) == (config.mask or config.all_logits)
        for channel in range(8):
            built = channel < config.channels
            assert (f"IMAGE{channel}_BYTES_HI" in mapped) == built
            assert (f"MASK{channel}_ADDR_LO" in mapped) == (built and config.mask)
            assert (f"LOGITS{channel}_ADDR_LO" in mapped) == (built and config.all_logits)
            assert (f"DATA_BEATS{channel}_LO" in mapped) == built
    expected = {"FLAGS": 0x34, "IMAGE3_BYTES_LO": 0xB8, "MASK3_ADDR_HI": 0x134}
    expected |= {"LOGITS3_ADDR_LO": 0x138, "CYCLES_LO": 0x300, "BYTES_WRITTEN_HI": 0x31C}
    expected |= {"DATA_BEATS0_LO": 0x320, "DATA_BEATS2_LO": 0x320 + 2 * 56}
    assert {name: OFFSETS[name] for name in expected} == expected


@pytest.mark.parametrize("config", [CONFIGS[0], CONFIGS[2]], ids=["base", "full"])
@pytest.mark.parametrize("kind", STALLS)
def test_any_mix_of_accesses_matches_the_table(kind, config):
    """Writes in every order with partial strobes, and reads, of mapped and unmapped words."""
    rng = random.Random(kind)
    mapped = places(config)
    model = dict.fromkeys(mapped, 0)
    model |= identification(config) | {"CONTROL": Control.IDLE}
    writable = arguments(config) + ["GIE", "IER"]
    bits = {"GIE": 0x1, "IER": 0x3}
    names = {offset: name for name, offset in mapped.items()}
    acting = {"CONTROL", "ISR", "RESET", "ERRORS"}
    plain = [*writable, *(name for name in mapped if name not in acting)]

    async def bench(ctx, dut, master):
        for _ in range(250):
            if rng.random() < 0.2:
                offset = rng.randrange(0, 1 << 12, 4)
            else:
                offset = mapped[rng.choice(plain)]
            name = names.get(offset)
            offset += rng.randrange(4)
            if rng.random() < 0.5:
                response, word = await master.read(ctx, offset)
                assert response == (RESP_OKAY if name else RESP_SLVERR), hex(offset)
                assert word == model.get(name, 0), hex(offset)
            elif name not in acting:
                value, strobe = rng.getrandbits(32), rng.randrange(16)
                response = await master.write(ctx, offset, value, strobe, rng.choice(ORDERS))
                assert response == (RESP_OKAY if name in writable else RESP_SLVERR), hex(offset)
                if name in writable:
                    mask = sum(0xFF << 8 * byte for byte in range(4) if strobe >> byte & 1)
                    word = model[name] & ~mask | value & mask
                    model[name] = word & bits.get(name, 0xFFFF_FFFF)
        for name, value in model.items():
            assert await master.get(ctx, name) == value, name

    run(bench, config, kind=kind, deadline=60000)


def test_unmapped_words_answer_slverr_and_change_nothing():
    table = registers(CONFIGS[3]).all
    names = [register.name for register in table]
    mapped = {register.offset for register in table}
    read_only = {register.offset for register in table if register.access is Access.READ}

    async def bench(ctx, dut, master):
        before = {name: await master.get(ctx, name) for name in names}
        for offset in [*range(0, 0x500, 4), *range(0x500, 0x1000, 0x44)]:
            if offset not in mapped:
                assert await master.read(ctx, offset) == (RESP_SLVERR, 0), hex(offset)
            if offset not in mapped or offset in read_only:
                assert await master.write(ctx, offset, 0xFFFF_FFFF) == RESP_SLVERR, hex(offset)
        assert {name: await master.get(ctx, name) for name in names} == before

    run(bench, CONFIGS[3], deadline=60000)


@pytest.mark.parametrize("kind", STALLS)
def test_reads_and_writes_do_not_wait_for_each_other(kind):
    """Both channels at once, the answers to one not taken while the other goes on."""
    rng = random.Random(kind)
    dut = Registers(CONFIGS[0])
    written = [(rng.choice(arguments(CONFIGS[0])), rng.getrandbits(32)) for _ in range(60)]

    async def writes(ctx):
        master = Master(dut, kind, seed=1)
        for name, value in written:
            assert await master.write(ctx, name, value, order=rng.choice(ORDERS)) == RESP_OKAY
            assert ctx.get(dut.bvalid) == 0

    async def reads(ctx):
        master = Master(dut, kind, seed=2)
        for _ in range(60):
            assert await master.get(ctx, "MAGIC") == identification(CONFIGS[0])["MAGIC"]
        ctx.set(dut.araddr, OFFSETS["MAGIC"])
        ctx.set(dut.arvalid, 1)
        await ctx.tick().until(dut.arready)
        ctx.set(dut.arvalid, 0)
        await wait_until(ctx, dut.rvalid)

    simulate(dut, writes, reads, background=[channel_checker(dut)])


@pytest.mark.parametrize("kind", STALLS)
def test_a_master_that_offers_the_next_read_early_gets_every_answer(kind):
    dut = Registers(CONFIGS[0])
    rng = random.Random(kind)
    offsets = [rng.choice([0x1FC, *places(CONFIGS[0]).values()]) for _ in range(80)]
    values = {OFFSETS[name]: value for name, value in identification(CONFIGS[0]).items()}

    async def addresses(ctx):
        pause = stalls(kind, seed=1)
        for offset in offsets:
            while not next(pause):
                await ctx.tick()
            ctx.set(dut.araddr, offset)
            ctx.set(dut.arvalid, 1)
            await ctx.tick().until(dut.arready)
            ctx.set(dut.arvalid, 0)

    async def answers(ctx):
        found = []
        for ready in stalls(kind, seed=2):
            ctx.set(dut.rready, ready)
            _, _, valid, response, word = await ctx.tick().sample(dut.rvalid, dut.rresp, dut.rdata)
            if valid and ready:
                found.append((response, word))
            if len(found) == len(offsets):
                break
        assert found == [
            (RESP_SLVERR if offset == 0x1FC else RESP_OKAY, values.get(offset, 0))
            for offset in offsets
        ]

    simulate(dut, addresses, answers, background=[channel_checker(dut)])


@pytest.mark.parametrize("kind", STALLS)
@pytest.mark.parametrize("late", ("aw", "w", "b", None))
def test_a_master_that_offers_the_next_write_early_loses_none(kind, late):
    """AW, W and B go on without waiting for each other, one of them held back."""
    dut = Registers(CONFIGS[0])
    rng = random.Random(kind)
    writes = [(rng.randrange(0x20, 0x50, 4), rng.getrandbits(32)) for _ in range(60)]
    mapped = set(places(CONFIGS[0]).values())

    def go(channel):
        slow = "long" if channel == late else kind
        return stalls(slow, seed=len(channel))

    async def offer(ctx, channel, payloads):
        valid, ready = handshake(dut, channel)
        pause = go(channel)
        for values in payloads:
            while not next(pause):
                await ctx.tick()
            for pin, value in values:
                ctx.set(pin, value)
            ctx.set(valid, 1)
            await ctx.tick().until(ready)
            ctx.set(valid, 0)

    async def addresses(ctx):
        await offer(ctx, "aw", [[(dut.awaddr, offset)] for offset, _ in writes])

    async def words(ctx):
        await offer(ctx, "w", [[(dut.wdata, word), (dut.wstrb, 0xF)] for _, word in writes])

    async def responses(ctx):
        found = []
        for ready in go("b"):
            ctx.set(dut.bready, ready)
            _, _, valid, response = await ctx.tick().sample(dut.bvalid, dut.bresp)
            if valid and ready:
                found.append(response)
            if len(found) == len(writes):
                break
        ctx.set(dut.bready, 0)
        assert found == [RESP_OKAY if offset in mapped else RESP_SLVERR for offset, _ in writes]
        master = Master(dut)
        for offset, word in dict(writes).items():
            assert await master.read(ctx, offset) == (
                (RESP_OKAY, word) if offset in mapped else (RESP_SLVERR, 0)
            )

    simulate(dut, addresses, words, responses, background=[channel_checker(dut)])


@pytest.mark.parametrize("config", [CONFIGS[0], CONFIGS[3]], ids=["base", "two channels"])
def test_reading_the_low_word_holds_the_high_word(config):
    """Counters that change while they are read; the two words are of one clock."""

    async def bench(ctx, dut, master):
        rng = random.Random(3)
        names = counter_names(config)
        for _ in range(4):
            for index, counter in enumerate(names):
                low, high = counter_registers(counter)
                values = [rng.getrandbits(48) for _ in names]
                for number, value in enumerate(values):
                    ctx.set(dut.counters[number], value)
                word = await master.get(ctx, low)
                for number in range(len(names)):
                    ctx.set(dut.counters[number], rng.getrandbits(48))
                await master.get(ctx, "MAGIC")
                assert word | await master.get(ctx, high) << 32 == values[index]

    run(bench, config)


def test_a_counter_is_read_in_one_clock():
    """One that steps from 2**32 - 1 to 2**32 under the read never shows a mixture."""
    for delay in range(8):

        async def bench(ctx, dut, master, delay=delay):
            async def step():
                ctx.set(dut.counters[0], 0xFFFF_FFFF)
                ctx.set(dut.araddr, OFFSETS["CYCLES_LO"])
                ctx.set(dut.arvalid, 1)
                for clock in range(12):
                    ctx.set(dut.counters[0], 0xFFFF_FFFF + (clock >= delay))
                    await ctx.tick()
                    ctx.set(dut.arvalid, 0)

            await step()
            assert ctx.get(dut.rvalid) == 1
            low = ctx.get(dut.rdata)
            ctx.set(dut.rready, 1)
            await ctx.tick()
            ctx.set(dut.rready, 0)
            value = low | await master.get(ctx, "CYCLES_HI") << 32
            assert value in (0xFFFF_FFFF, 0x1_0000_0000)

        run(bench)


@pytest.mark.parametrize("config", CONFIGS)
def test_documents_list_every_register_once_and_are_the_same_every_time(config):
    page, header = markdown(config), c_header(config)
    assert (page, header) == (markdown(config), c_header(config))
    rows = re.findall(r"^\| (0x[0-9A-F]{3}) \| (\w+) \|", page, re.MULTILINE)
    defines = dict(re.findall(r"^#define UNEMBED_(\w+) (0x[0-9A-F]+|\d+)u?$", header, re.MULTILINE))
    assert [(int(offset, 16), name) for offset, name in rows] == [
        (register.offset, register.name) for register in registers(config).all
    ]
    found = {
        name.removesuffix("_OFFSET"): int(value, 16)
        for name, value in defines.items()
        if name.endswith("_OFFSET")
    }
    assert found == places(config)
    assert header.count("#define") == len(defines) + 1  # the guard; no name twice
    assert int(defines["CONTROL_CONTINUE_MASK"], 16) == Control.CONTINUE
    for feature in Feature:
        assert int(defines[f"FEATURE_{feature.name}"], 16) == feature
        built = "yes" if identification(config)["FEATURES"] & feature else "no"
        assert f"| {feature.bit_length() - 1} | {feature.name} | {built} |" in page
    for name, value in identification(config).items():
        assert int(defines[f"{name}_VALUE"], 16) == value
        assert re.search(rf"\| {name} \| RO \| 0x{value:X} \|", page)
    for register in registers(config).all:
        for field in register.fields:
            assert f"| {field.name} | {field.access.value} | {field.doc} |" in page


def test_registers_and_fields_do_not_overlap():
    assert len(set(OFFSETS.values())) == len(OFFSETS)
    table = registers(CONFIGS[2]).all
    offsets = [register.offset for register in table]
    assert offsets == sorted(set(offsets))
    assert all(offset % 4 == 0 and 0 <= offset < 1 << 12 for offset in offsets)
    for register in table:
        bits = [
            bit for field in register.fields for bit in range(field.bit, field.bit + field.width)
        ]
        assert len(bits) == len(set(bits)) and all(0 <= bit < 32 for bit in bits)
