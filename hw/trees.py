"""Sums and comparisons in carry chains."""

from collections.abc import Sequence

from amaranth.hdl import Module, Signal, Value, signed


def tree_levels(terms: int) -> int:
    """Registered levels, and so clocks, of a tree over `terms` >= 1 values."""
    return (terms - 1).bit_length()


def adder_tree(m: Module, terms: Sequence[Value], name: str) -> Value:
    """Sum of signed `terms`, `tree_levels(len(terms))` clocks later; it cannot overflow."""
    level = 0
    while len(terms) > 1:
        sums = []
        for index in range(0, len(terms) - 1, 2):
            bits = max(len(terms[index]), len(terms[index + 1])) + 1
            total = Signal(signed(bits), name=f"{name}_{level}_{index // 2}", reset_less=True)
            m.d.sync += total.eq(terms[index] + terms[index + 1])
            sums.append(total)
        if len(terms) % 2:
            odd = Signal(signed(len(terms[-1])), name=f"{name}_{level}_odd", reset_less=True)
            m.d.sync += odd.eq(terms[-1])
            sums.append(odd)
        terms = sums
        level += 1
    return terms[0]


def is_less(a: Value, b: Value) -> Value:
    """``a < b`` of unsigned values, as the sign of their difference.

    A register of it lies at the end of the carry chain. The carry that `<` gives would leave the
    chain on the ECP5 and come to its register over a LUT elsewhere: 1 to 2 ns more.
    """
    return (a - b)[-1]
