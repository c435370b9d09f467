"""`unembed inspect`: what an image holds."""

import argparse

from rich.table import Table

from host.console import print_json, print_table
from host.image import Image
from host.image.summary import describe
from host.options import paths

NAME = "inspect"
HELP = "verify an image and show its parameters, source, sizes and layout"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image", type=paths.path, metavar="IMAGE", help="image from unembed pack")
    parser.add_argument("--json", action="store_true", help="all of it as JSON")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "-"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return f"{int(value):,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def run(arguments: argparse.Namespace) -> int:
    image = Image(arguments.image)
    image.verify()
    description = describe(image)
    if arguments.json:
        print_json(description)
        return 0
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    table.add_column(overflow="fold")
    for section, content in description.items():
        name = section.replace("_", " ")
        if not isinstance(content, dict):
            table.add_row(name, "", _text(content))
            continue
        for key, value in content.items():
            table.add_row(name, key.replace("_", " "), _text(value))
            name = ""
    print_table(table)
    return 0
