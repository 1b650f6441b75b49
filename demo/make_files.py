"""Draw the sample files of the demonstration anew.

usage: make_files.py DIRECTORY

Needs Pillow for the pictures. The files in demo/files were made by this; it
is not run by make.
"""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter

Colour = tuple[int, int, int]

SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 320 120" width="640" height="240">
  <title>ID to file</title>
  <rect width="320" height="120" fill="#f7f5ef"/>
  <g fill="none" stroke="#1f5f5b" stroke-width="4" stroke-linejoin="round">
    <rect x="24" y="36" width="84" height="48" rx="8"/>
    <path d="M118 60h72m-14-12 14 12-14 12"/>
    <path d="M210 24h56l22 22v50h-78z"/>
    <path d="M266 24v22h22"/>
  </g>
  <g fill="#1f5f5b" font-family="monospace" font-size="20" text-anchor="middle">
    <text x="66" y="67">/file/3</text>
    <text x="249" y="78">SVG</text>
  </g>
</svg>
"""

NOTES = """\
This text is served by its ID: /file/6 becomes documents/notes.txt.

Its record is a JSON object with a type and a Cache-Control header:

    {"path":"documents/notes.txt","type":"text/plain; charset=utf-8",
     "headers":{"Cache-Control":"max-age=60"}}

A record may also be just the path: that is what /file/1 has.

ID で配信されるテキストです。
"""


def mix(a: Colour, b: Colour, share: float) -> Colour:
    """Blend two colours; ``share`` from 0 (all a) to 1 (all b)."""
    red, green, blue = (round(x + (y - x) * share) for x, y in zip(a, b))
    return red, green, blue


def sky(size: tuple[int, int], top: Colour, bottom: Colour) -> Image.Image:
    """Return a picture of a vertical gradient."""
    image = Image.new("RGB", size)
    draw = ImageDraw.Draw(image)
    for y in range(size[1]):
        draw.line([(0, y), (size[0], y)], mix(top, bottom, y / size[1]))
    return image


def ridge(width: int, base: float, height: float, seed: int) -> list[float]:
    """Return the heights of a chain of hills, one a column."""
    random_ = random.Random(seed)
    waves = [
        (random_.uniform(0.5, 1) / n, random_.uniform(0, math.tau), n)
        for n in (1, 2, 3, 5, 9)
    ]
    return [
        base
        - height
        * sum(a * math.sin(p + math.tau * n * x / width / 1.7) for a, p, n in waves)
        for x in range(width)
    ]


def mountains(path: Path) -> None:
    """Draw hills at dawn, PNG."""
    width, height = 640, 400
    image = sky((width, height), (38, 50, 92), (248, 190, 140))
    draw = ImageDraw.Draw(image)
    draw.ellipse((430, 150, 500, 220), fill=(255, 236, 190))
    for layer in range(4):
        share = layer / 3
        colour = mix((150, 110, 130), (22, 38, 46), share)
        tops = ridge(width, 230 + 45 * layer, 34 - 4 * layer, seed=7 + layer)
        points = [(0, height), *enumerate(tops), (width, height)]
        draw.polygon(points, fill=colour)
    image.quantize(96).save(path, optimize=True)


def sea(path: Path) -> None:
    """Draw the sea in the evening, JPEG."""
    width, height = 720, 450
    image = sky((width, height), (255, 176, 112), (255, 226, 178))
    draw = ImageDraw.Draw(image)
    draw.ellipse((300, 150, 420, 270), fill=(255, 120, 84))
    water = sky((width, height // 2), (232, 128, 100), (22, 62, 92))
    image.paste(water, (0, height // 2))
    draw = ImageDraw.Draw(image)
    random_ = random.Random(11)
    for _ in range(420):
        y = height // 2 + round((height / 2) * random_.random() ** 1.4)
        near = (y - height / 2) / (height / 2)
        x = random_.gauss(width / 2, 40 + 150 * near)
        half = 4 + 22 * near * random_.random()
        draw.line([(x - half, y), (x + half, y)], (255, 190, 140), 1 + round(2 * near))
    image.filter(ImageFilter.GaussianBlur(0.6)).save(path, quality=80)


def pdf(path: Path, title: str, lines: list[str]) -> None:
    """Write a PDF of one page.

    Args:
        path: the file.
        title: the document's, any text.
        lines: of the page, ASCII.
    """
    text = "BT /F1 24 Tf 72 740 Td 32 TL\n"
    for line in lines:
        escaped = line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
        text += f"({escaped}) Tj T*\n/F1 14 Tf\n"
    text += "ET\n"
    stream = text.encode("ascii")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R"
            b" /Resources << /Font << /F1 5 0 R >> >> >>"
        ),
        b"<< /Length %d >>\nstream\n%sendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Title <FEFF%s> >>" % title.encode("utf-16-be").hex().upper().encode(),
    ]
    out = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R /Info 6 0 R >>\n" % (len(objects) + 1)
    out += b"startxref\n%d\n%%%%EOF\n" % table
    path.write_bytes(out)


def main(folder: Path) -> None:
    """Write all files below a folder."""
    pictures = folder / "pictures"
    documents = folder / "documents"
    for path in (pictures, documents):
        path.mkdir(parents=True, exist_ok=True)
    mountains(pictures / "mountains.png")
    sea(pictures / "sea.jpg")
    (pictures / "id-to-file.svg").write_text(SVG, encoding="utf-8")
    (documents / "notes.txt").write_text(NOTES, encoding="utf-8")
    pdf(
        documents / "handbook.pdf",
        "Handbook",
        ["Handbook", "This PDF is /file/4: documents/handbook.pdf."],
    )
    pdf(
        documents / "見積書.pdf",
        "見積書",
        ["Mitsumorisho (an estimate)", "This PDF has a Japanese name: /file/5."],
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit((__doc__ or "").strip())
    main(Path(sys.argv[1]))
