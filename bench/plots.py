"""Draws a table's figures, as an SVG for light and dark pages."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from bench.stats import Spread

_XMLNS = "http://www.w3.org/2000/svg"

# Pixels; text is 12 high, and 6.4 wide for each character on average.
_WIDTH = 900
_MARGIN = 16
_TOP = 40
_STEP = 26
_BAR = 17
_GOAL = 16
_BOTTOM = 52
_CHARACTER = 6.4

# Of the longest bar: too short for a figure within.
_SHORT = 0.12
_TICKS = 6

_STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-size: 15px; font-weight: 600 }
.page { fill: #ffffff }
.axis { stroke: #8c959f; stroke-width: 1 }
.range { stroke: #1f2328; stroke-width: 1; opacity: .6 }
.middle { stroke: #1f2328; stroke-width: 4; opacity: .35 }
.line { stroke: #1f2328; stroke-width: 1; stroke-dasharray: 5 4 }
.goal { stroke: #b03a2e; stroke-width: 1; stroke-dasharray: 2 3 }
.told { fill: #b03a2e; font-size: 10px }
.baseline { fill: #a3adb9 }
.noise { fill: #d3d9df }
.ours { fill: #5fbf9b }
.other { fill: #bda0d3 }
.floor { fill: #e3bf77 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.page { fill: #0d1117 }
.range, .middle, .line { stroke: #e6edf3 }
.goal { stroke: #ff8b7e }
.told { fill: #ff8b7e }
.baseline { fill: #55606d }
.noise { fill: #3a434d }
.ours { fill: #1b7f5c }
.other { fill: #71508b }
.floor { fill: #8a6720 }
}
"""


@dataclass(frozen=True)
class Row:
    """One bar: its length is ``median``, a line shows the lowest and the highest
    round, its thick part the middle half of them.

    ``role`` picks the colour: baseline, noise, ours, other or floor. ``rounds``
    is None for what was measured once.
    """

    label: str
    role: str
    median: float
    rounds: Spread | None = None

    @property
    def end(self) -> float:
        """Where the bar or its line ends."""
        return max(self.median, self.rounds.high) if self.rounds else self.median


@dataclass(frozen=True)
class Chart:
    """Horizontal bars.

    Args:
        title: above them.
        axis: what the length means, with its unit.
        rows: from top to bottom; at least one.
        line: where a vertical line stands (the baseline), or None.
        goals: labels and places of further lines.
    """

    title: str
    axis: str
    rows: Sequence[Row]
    line: float | None = None
    goals: Sequence[tuple[str, float]] = ()


def draw(chart: Chart) -> str:
    """Return a chart as SVG.

    The colours follow the reader's choice of a light or a dark page.
    """
    return _Drawing(chart).text()


def draw_file(chart: Chart, path: Path) -> None:
    """Write a chart as SVG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(draw(chart))


class _Drawing:
    def __init__(self, chart: Chart) -> None:
        self._chart = chart
        labels = [_plain(row.label) for row in chart.rows]
        widest = max(_width(label) for label in labels)
        self._left = _MARGIN + widest + 8
        self._right = _WIDTH - _MARGIN
        self._first = _TOP + _GOAL * len(chart.goals)
        self._last = self._first + _STEP * len(chart.rows)
        self._ticks = _ticks(max([*(r.end for r in chart.rows), *self._places()]))
        self._parts: list[str] = []

    def _places(self) -> list[float]:
        lines = [] if self._chart.line is None else [self._chart.line]
        return lines + [where for _, where in self._chart.goals]

    def _x(self, value: float) -> float:
        return self._left + (self._right - self._left) * value / self._ticks[-1]

    def _text(self, x: float, y: float, text: str, rest: str = "") -> None:
        self._parts.append(
            f'<text x="{x:.0f}" y="{y:.0f}"{rest}>{escape(_plain(text))}</text>'
        )

    def _line(self, kind: str, x1: float, y1: float, x2: float, y2: float) -> None:
        self._parts.append(
            f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}"'
            f' x2="{x2:.1f}" y2="{y2:.1f}"/>'
        )

    def text(self) -> str:
        """Draw everything."""
        self._text(_MARGIN, 24, self._chart.title, ' class="title"')
        for number, row in enumerate(self._chart.rows):
            self._row(row, self._first + _STEP * number + _STEP / 2)
        self._axis()
        self._lines()
        height = self._last + _BOTTOM
        size = f'width="{_WIDTH}" height="{height}"'
        return "\n".join(
            [
                f'<svg xmlns="{_XMLNS}" {size} viewBox="0 0 {_WIDTH} {height}">',
                f"<title>{escape(self._chart.title)}</title>",
                f"<style>\n{_STYLE}</style>",
                f'<rect class="page" {size}/>',
                *self._parts,
                "</svg>\n",
            ]
        )

    def _row(self, row: Row, y: float) -> None:
        end = self._x(row.median)
        self._text(self._left - 8, y + 4, row.label, ' text-anchor="end"')
        self._parts.append(
            f'<rect class="{row.role}" x="{self._left:.1f}" y="{y - _BAR / 2:.1f}"'
            f' width="{end - self._left:.1f}" height="{_BAR}"/>'
        )
        after = end
        if row.rounds is not None and row.rounds.low < row.rounds.high:
            self._line("range", self._x(row.rounds.low), y, self._x(row.rounds.high), y)
            self._line("middle", self._x(row.rounds.q1), y, self._x(row.rounds.q3), y)
            after = max(end, self._x(row.rounds.high))
        # Within the bar, or right of it if there is no room.
        short = row.median < _SHORT * self._ticks[-1]
        digits = 0 if row.median >= 1_000 else 2
        figure = f"{row.median:,.{digits}f}"
        self._text((after if short else self._left) + 6, y + 4, figure)

    def _axis(self) -> None:
        self._line("axis", self._left, self._last, self._right, self._last)
        self._line("axis", self._left, self._first, self._left, self._last)
        for tick in self._ticks:
            x = self._x(tick)
            self._line("axis", x, self._last, x, self._last + 4)
            last = tick == self._ticks[-1]
            anchor = "end" if last else "middle"
            self._text(x, self._last + 18, f"{tick:,.6g}", f' text-anchor="{anchor}"')
        self._text(self._right, self._last + 40, self._chart.axis, ' text-anchor="end"')

    def _lines(self) -> None:
        if self._chart.line is not None:
            x = self._x(self._chart.line)
            self._line("line", x, self._first, x, self._last)
        for number, (label, where) in enumerate(self._chart.goals):
            x, y = self._x(where), _TOP + _GOAL * number
            self._line("goal", x, y, x, self._last)
            left = x + 4 + _width(label) > self._right
            anchor = "end" if left else "start"
            rest = f' class="told" text-anchor="{anchor}"'
            self._text(x - 4 if left else x + 4, y + 10, label, rest)


def _plain(text: str) -> str:
    """Return Markdown without its marks."""
    return text.replace("`", "").replace("**", "")


def _width(text: str) -> float:
    return _CHARACTER * len(_plain(text))


def _ticks(longest: float) -> list[float]:
    """Return round numbers from 0 to one that is not less than the longest."""
    if longest <= 0:
        return [0, 1]
    least = longest / _TICKS
    power = 10 ** math.floor(math.log10(least))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= least)
    return [step * n for n in range(math.ceil(longest / step) + 1)]
