"""Detect once, recognise many crops: reads a page of text on a server, and counts what travels for it.

It needs a server that takes uploads (`inferwire serve --allow-uploads`), Pillow, and the models of PP-OCR, which the
package rapidocr brings. `make programs` installs all that and runs it. To run it alone, install those beside the client
(`pip install pillow; pip install --no-deps rapidocr`) and call `python client/examples/read_text --address HOST:8001`.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import numpy as np
from pictures import example_page, with_lines
from PIL import Image
from readers import Array, CascadeReader, Line, NaiveReader, Reader
from traffic import Traffic

import inferwire as ov


def main() -> int:
    options = parsed()
    page = Image.open(options.page).convert("RGB") if options.page else example_page()
    found: dict[str, list[Line]] = {}
    print(f"{'way':10} {'sent KB':>9} {'received KB':>12} {'ms':>7}")
    for name, kind in (("naive", NaiveReader), ("cascade", CascadeReader)):
        found[name] = measured(name, kind, options, np.asarray(page)[None])
    for line in found["cascade"]:
        print(f"  {line.score:.2f}  {line.text}")
    with_lines(page, found["cascade"]).save(options.output)
    print(f"{options.output} shows where")
    same = [line.text for line in found["naive"]] == [line.text for line in found["cascade"]]
    print("both ways read the same" if same else "the two ways read different texts")
    return 0 if same else 1


def measured(name: str, kind: type[Reader], options: argparse.Namespace, page: Array) -> list[Line]:
    """Read a page in one way, and say what it took once the models were there and warm."""
    with Traffic(options.address) as traffic:
        # Over gRPC alone: a session on a socket of its own would go past the relay.
        core = ov.Core(f"grpc://{traffic.address}")
        reader = kind(core, options.models, page)
        reader.read()
        sent, received, start = traffic.sent, traffic.received, perf_counter()
        lines = reader.read()
        took_ms = (perf_counter() - start) * 1000
        print(
            f"{name:10} {(traffic.sent - sent) / 1e3:9.0f} {(traffic.received - received) / 1e3:12.0f} {took_ms:7.0f}"
        )
        core.close()
    return lines


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="read_text", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--address", default="127.0.0.1:8001", help="the server's gRPC port (default: %(default)s)")
    parser.add_argument("--models", type=Path, help="the folder with PP-OCR's models (default: those of rapidocr)")
    parser.add_argument("--page", type=Path, help="a picture of text (default: one that is drawn)")
    parser.add_argument("--output", type=Path, default=Path("read_text.png"), help="the picture (default: %(default)s)")
    options = parser.parse_args()
    if options.models is None:
        package = find_spec("rapidocr")
        if package is None or package.origin is None:
            parser.error("the models are not there: pip install --no-deps rapidocr, or name their folder with --models")
        options.models = Path(package.origin).parent / "models"
    return options


if __name__ == "__main__":
    sys.exit(main())
