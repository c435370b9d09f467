"""Which of an accelerator's waveforms are worth a look: a saved view for GTKWave."""

import re
from collections.abc import Iterable, Sequence

from hw.config import HeadConfig

ROOT = "TOP.simulation"
ACCELERATOR = f"{ROOT}.accelerator"
"""The accelerator's instance in an FST file of `sim.device.SimDevice.trace`."""

READ_PINS = (
    "arvalid",
    "arready",
    "araddr",
    "arlen",
    "rvalid",
    "rready",
    "rlast",
    "rresp",
    "rdata",
)
WRITE_PINS = (
    "awvalid",
    "awready",
    "awaddr",
    "awlen",
    "wvalid",
    "wready",
    "wlast",
    "wdata",
    "bvalid",
    "bready",
    "bresp",
)
REGISTER_PINS = (
    "awvalid",
    "awready",
    "awaddr",
    "wvalid",
    "wready",
    "wdata",
    "arvalid",
    "arready",
    "araddr",
    "rvalid",
    "rready",
    "rdata",
)
CONTROL_SIGNALS = (
    ("control.stream", "stream_state"),
    ("control.finish", "finish_state"),
    ("control", "job__valid"),
    ("control", "job__ready"),
    ("control", "start_plan"),
    ("control", "start_data"),
    ("control", "rows_done"),
    ("control", "hand_over"),
    ("control", "drain"),
    ("control", "collected"),
    ("control", "done"),
    ("control", "status"),
    ("", "interrupt"),
)
READER_SIGNALS = (
    "active",
    "command__valid",
    "command__ready",
    "outstanding_beats",
    "o__valid",
    "o__ready",
    "idle",
    "error",
)
TOPK_SIGNALS = (
    "i__valid",
    "i__ready",
    "i__payload",
    "inserted",
    "drain",
    "o__valid",
    "o__ready",
    "o__payload",
)

# Trace flags of a GTKWave save file.
_BITS, _HEXADECIMAL, _GROUP_BEGIN, _GROUP_END = "@28", "@22", "@800200", "@1000200"

_MODULE = re.compile(r"^module \\?(\S+?) ?\(.*?^endmodule", re.MULTILINE | re.DOTALL)
_DECLARATION = re.compile(r"^  (?:input|output|wire|reg) (?:\[(\d+):0\] )?(\w+)\b", re.MULTILINE)


class _Design:
    """The signals of generated Verilog: their widths by module, from the accelerator's down."""

    def __init__(self, verilog: str):
        self._modules = {
            found[1].partition(".")[2]: {
                name: int(high or 0) + 1 for high, name in _DECLARATION.findall(found[0])
            }
            for found in _MODULE.finditer(verilog)
        }

    def modules(self, pattern: str) -> list[str]:
        """Modules whose whole path matches, in the order of the text."""
        return [path for path in self._modules if re.fullmatch(pattern, path)]

    def has(self, name: str, path: str = "") -> bool:
        return name in self._modules.get(path, ())

    def lines(self, signals: Iterable[tuple[str, str]]) -> list[str]:
        """(module, signal) as the lines that show them; what was not built is left out."""
        lines = []
        for path, name in signals:
            if not self.has(name, path):
                continue
            width = self._modules[path][name]
            full = ".".join(filter(None, (ACCELERATOR, path, name)))
            if width == 1:
                lines += [_BITS, full]
            else:
                lines += [_HEXADECIMAL, f"{full}[{width - 1}:0]"]
        return lines


def _group(title: str, lines: Sequence[str]) -> list[str]:
    return [_GROUP_BEGIN, f"-{title}", *lines, _GROUP_END, f"-{title}"] if lines else []


def gtkwave_view(config: HeadConfig, verilog: str) -> str:
    """A GTKWave save file for waveforms of an accelerator.

    Groups: the control of jobs, for each channel its memory port, its reader's stream and its
    top-ks, and the register port.

    Parameters
    ----------
    config : HeadConfig
    verilog : str
        Generated from it; the widths come from there.
    """
    design = _Design(verilog)
    lines = ["[*] unembed", "[timestart] 0", f"[treeopen] {ROOT}.", "[signals_width] 320"]
    lines += _group("job control", design.lines(CONTROL_SIGNALS))
    for channel in range(config.channels):
        pins = f"m_axi_gmem{channel}"
        lines += _group(
            f"channel {channel}: memory reads",
            design.lines(("", f"{pins}_{name}") for name in READ_PINS),
        )
        lines += _group(
            f"channel {channel}: memory writes",
            design.lines(("", f"{pins}_{name}") for name in WRITE_PINS),
        )
        lines += _group(
            f"channel {channel}: reader",
            design.lines((f"channel{channel}.reader", name) for name in READER_SIGNALS),
        )
        for path in design.modules(rf"channel{channel}\.ranker\d+\.topk\w+"):
            lines += _group(
                f"channel {channel}: {path.partition('.')[2].replace('.', ', ')}",
                design.lines((path, name) for name in TOPK_SIGNALS),
            )
    lines += _group(
        "registers", design.lines(("", f"s_axi_control_{name}") for name in REGISTER_PINS)
    )
    return "\n".join(lines) + "\n"
