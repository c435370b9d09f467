"""What synthesis found, as text and for JSON."""

from dataclasses import asdict

from rich.table import Table

from host.console import print_table
from host.synth.critical_path import CriticalPath
from host.synth.synthesis import Synthesis
from host.synth.utilisation import Utilisation
from hw.config import HeadConfig

_KINDS = ("lut4", "ff", "dsp", "ram")
_USES = {
    "dot": "dot units",
    "scale": "scales",
    "term": "row terms",
    "logsumexp": "log-sum-exp",
    "other": "other",
}


def document(found: Synthesis, config: HeadConfig) -> dict:
    """The report for JSON."""
    return {
        "target": {
            name: value
            for name, value in asdict(found.target).items()
            if found.target.is_placed or name == "family"
        },
        "block": found.block,
        **found.total.as_dict(),
        "lut_inputs": found.target.lut_inputs,
        "fmax_mhz": found.fmax_mhz,
        "seeds": [asdict(run) for run in found.runs],
        "critical_path": found.path.as_dict() if found.path else None,
        "blocks": {
            name: block.as_dict() | {"instances": block.instances}
            for name, block in found.blocks.items()
        },
        "dsp_uses": found.dsp_uses,
        "soft_multipliers": found.soft_multipliers,
        "available": found.available,
        "wrapper": found.wrapper.as_dict(),
        "synthesis_seconds": found.synthesis_seconds,
        "tools": list(found.tools),
        "config": asdict(config),
    }


def _row(table: Table, name: str, part: Utilisation) -> None:
    ram = f"{part.ram:,.1f}" if part.ram % 1 else f"{int(part.ram):,}"
    table.add_row(name, f"{part.lut4:,}", f"{part.ff:,}", f"{part.dsp:,}", ram)


def print_report(found: Synthesis) -> None:
    """The report as text."""
    table = Table(box=None, padding=(0, 3, 0, 0))
    table.add_column("block", no_wrap=True)
    for name in (f"LUT{found.target.lut_inputs}", "FF", "DSP", "RAM"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, block in found.blocks.items():
        _row(table, f"{name} x {block.instances}" if block.instances > 1 else name, block)
    _row(table, "total", found.total)
    if found.available:
        table.add_row("available", *(f"{found.available[kind]:,}" for kind in _KINDS))
    print_table(table)
    if found.dsp_uses:
        uses = ", ".join(f"{count} {_USES[use]}" for use, count in found.dsp_uses.items())
        print(f"DSP: {uses}" + _soft(found.soft_multipliers))
    if not found.runs:
        print("no clock: for this family there is synthesis only")
        return
    _print_clock(found)
    if found.path:
        _print_path(found.path)
    seconds = sum(run.seconds for run in found.runs) / len(found.runs)
    print(f"synthesis took {found.synthesis_seconds:.0f} s, place and route {seconds:.0f} s a seed")


def _soft(count: int | None) -> str:
    if count is None:
        return ""
    return f"; {count} multiplications in LUTs" if count else "; no multiplication in LUTs"


def _print_clock(found: Synthesis) -> None:
    clocks = [f"{run.fmax_mhz:.1f}" for run in found.runs]
    if len(clocks) == 1:
        print(f"clock {clocks[0]} MHz, seed {found.runs[0].seed}")
    else:
        print(f"clock {found.fmax_mhz:.1f} MHz, median of {len(clocks)} seeds: {', '.join(clocks)}")


def _print_path(path: CriticalPath) -> None:
    share = 100 * path.logic_ns / path.ns
    print(
        f"critical path {path.ns:.2f} ns: logic {path.logic_ns:.2f} ({share:.0f} %), routing "
        f"{path.routing_ns:.2f}"
    )
    print(f"  from {path.begin}")
    for leg in path.legs:
        print(f"  {leg.block}: logic {leg.logic_ns:.2f}, routing {leg.routing_ns:.2f}")
    print(f"  to {path.end}")
