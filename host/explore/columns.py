"""What is told of a point, by name: the columns of the CSV file and the keys of JSON.

Names end in their units; `estimated`, `counted`, `simulated` and `synthesised` say where a figure
is from. What was not asked for is None.
"""

from dataclasses import fields

from host.explore.outcome import PARTS, Outcome
from host.explore.values import shown
from hw.config import HeadConfig

IMAGE, FOLDER = "head.safetensors", "hardware"


def row(outcome: Outcome) -> dict[str, object]:
    """All figures of a point."""
    return {
        "point": outcome.number,
        "front": "yes" if outcome.front else "no",
        **_system(outcome),
        **_hardware(outcome),
        **_cycles(outcome),
        **_area(outcome),
        **_image(outcome),
        **_quality(outcome),
        "generate_command": outcome.point.generate_command(FOLDER),
        "failures": "; ".join(outcome.failures) or None,
    }


def _system(outcome: Outcome) -> dict[str, object]:
    return {
        "memory": outcome.point.memory_name,
        "clock_MHz": float(outcome.point.clock_hz) / 1e6,
        "lanes": outcome.lanes,
    }


def _hardware(outcome: Outcome) -> dict[str, object]:
    config = outcome.point.config
    values = {field.name: getattr(config, field.name) for field in fields(HeadConfig)}
    values["group"] = shown("group", config.group)
    return {
        name: shown(name, value) if isinstance(value, bool) else value
        for name, value in values.items()
    }


def _cycles(outcome: Outcome) -> dict[str, object]:
    estimate, simulated, batch = outcome.estimate, outcome.simulated, outcome.point.config.batch
    clock_hz = float(outcome.point.clock_hz)
    values = {"cycles_estimated": estimate.cycles}
    values["cycles_simulated"] = simulated.cycles if simulated else None
    values["tokens_per_s_estimated"] = estimate.tokens_per_s
    values["tokens_per_s_simulated"] = batch * clock_hz / simulated.cycles if simulated else None
    values["estimate_error_percent"] = (
        100 * (estimate.cycles / simulated.cycles - 1) if simulated else None
    )
    for name in PARTS:
        values[f"{name}_cycles_estimated"] = getattr(estimate, name)
        values[f"{name}_cycles_simulated"] = getattr(simulated, name) if simulated else None
    values["bytes_read_estimated"] = estimate.bytes_read
    values["bytes_read_simulated"] = simulated.bytes_read if simulated else None
    values["bytes_written_estimated"] = estimate.bytes_written
    values["bytes_written_simulated"] = simulated.bytes_written if simulated else None
    values["bound_by"] = estimate.bound_by
    values["results_compared"] = simulated.compared if simulated else None
    values["results_unlike_golden_model"] = simulated.mismatches if simulated else None
    return values


def _area(outcome: Outcome) -> dict[str, object]:
    area, placed = outcome.area, outcome.placed
    design = placed.design if placed else None
    return {
        "lut4_estimated": area.lut4 if area else None,
        "dsp_blocks_counted": area.dsp if area else None,
        "ram_blocks_counted": area.ram if area else None,
        "memory_on_chip_bits": area.memory_bits if area else None,
        "luts_synthesised": design.lut if design else None,
        "lut_inputs": design.lut_inputs if design else None,
        "flip_flops_synthesised": design.ff if design else None,
        "dsp_blocks_synthesised": design.dsp if design else None,
        "ram_blocks_synthesised": design.ram if design else None,
        "clock_achieved_MHz": design.fmax_mhz if design else None,
        "tokens_per_s_at_achieved_clock": placed.tokens_per_s if placed else None,
        "critical_path": design.critical_path if design else None,
    }


def _image(outcome: Outcome) -> dict[str, object]:
    image = outcome.image
    return {
        "image_bytes": image.total,
        "header_padding_bytes": image.header_padding,
        "row_padding_bytes": image.row_padding,
    }


def _quality(outcome: Outcome) -> dict[str, object]:
    quality = outcome.quality
    return {
        "top1_agreement_percent": 100 * quality.top1 if quality else None,
        "top8_order_percent": 100 * quality.top8 if quality else None,
        "kl_nats": quality.kl if quality else None,
    }
