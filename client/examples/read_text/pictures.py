"""The page that is read, and the picture of what was read."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont
from readers import Line

SIZE = (960, 640)
INK = (32, 36, 44)
PAPER = (250, 248, 243)
MARK = (0, 110, 180)

PAGE: Sequence[tuple[int, int, int, str]] = (
    (60, 48, 54, "Weather station 42"),
    (60, 140, 30, "Harbour master's log, 3 March"),
    (60, 214, 26, "06:00   wind north-west, 5 knots"),
    (60, 262, 26, "09:00   wind west, 12 knots, showers"),
    (60, 310, 26, "12:00   wind south-west, 18 knots"),
    (60, 358, 26, "15:00   gale warning, all boats in"),
    (60, 452, 34, "Visibility: 2.5 miles"),
    (560, 452, 34, "Pressure: 998 hPa"),
    (60, 548, 22, "signed at the pier, to be copied twice"),
)
"""Where each line of the example page begins, the size of its letters, and what it says."""


def example_page() -> Image.Image:
    """Draw the page."""
    page = Image.new("RGB", SIZE, PAPER)
    draw = ImageDraw.Draw(page)
    draw.line((60, 122, 900, 122), fill=INK, width=2)
    for left, top, size, text in PAGE:
        draw.text((left, top), text, font=ImageFont.load_default(size), fill=INK)
    return page


def with_lines(page: Image.Image, lines: Sequence[Line]) -> Image.Image:
    """Put the page beside what was read, each line in its place."""
    width, height = page.size
    picture = Image.new("RGB", (2 * width, height), "white")
    picture.paste(page, (0, 0))
    draw = ImageDraw.Draw(picture)
    for line in lines:
        box = line.box
        draw.rectangle((box.left, box.top, box.right, box.bottom), outline=MARK, width=2)
        font = ImageFont.load_default(max(12, int(box.height * 0.8)))
        draw.text((width + box.left, box.top + box.height // 6), line.text, font=font, fill=MARK)
    return picture
