"""Draws a table's figures, as SVG and PNG."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

_COLOURS = {
    "baseline": "#7f8c9b",
    "noise": "#c3cad2",
    "ours": "#1b7f5c",
    "other": "#8a5fa8",
    "floor": "#d9a441",
}

# Of the longest bar: too short for a figure within.
_SHORT = 0.12


@dataclass(frozen=True)
class Row:
    """One bar: its length is the median of ``values``, each value is a dot.

    ``role`` picks the colour: baseline, noise, ours, other or floor.
    """

    label: str
    role: str
    median: float
    values: Sequence[float]


def draw_bars(
    rows: Sequence[Row],
    stem: Path,
    *,
    title: str,
    axis: str,
    line: float | None,
    goals: Sequence[tuple[str, float]] = (),
) -> list[Path]:
    """Draw horizontal bars with a dot for each round.

    Args:
        rows: from top to bottom; at least one.
        stem: path without suffix; .svg and .png are written.
        title: above the plot.
        axis: what the length means, with its unit.
        line: where to draw a vertical line (the baseline), or None.
        goals: labels and places of further lines.

    Returns:
        The files written.
    """
    figure = Figure(figsize=(9, 1.2 + 0.42 * len(rows)))
    axes = figure.add_subplot()
    places = range(len(rows))
    longest = max(row.median for row in rows)
    axes.barh(
        places,
        [row.median for row in rows],
        color=[_COLOURS[row.role] for row in rows],
        height=0.62,
    )
    for place, row in zip(places, rows, strict=True):
        axes.plot(
            row.values,
            [place] * len(row.values),
            linestyle="none",
            marker="|",
            color="black",
            alpha=0.45,
        )
        # Within the bar, or right of it if there is no room.
        short = row.median < _SHORT * longest
        dark = short or row.role in ("noise", "floor")
        axes.annotate(
            f"{row.median:,.{0 if row.median >= 1_000 else 2}f}",
            (row.median if short else 0, place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color="black" if dark else "white",
        )
    if line is not None:
        axes.axvline(line, color="black", linewidth=0.8, linestyle="--")
    for number, (label, where) in enumerate(goals):
        axes.axvline(where, color="#b03a2e", linewidth=1, linestyle=":")
        axes.annotate(
            label,
            (where, len(rows) - 0.35 + 0.35 * number),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            color="#b03a2e",
            fontsize=7,
        )
    axes.set_yticks(places, [row.label for row in rows])
    axes.set_ylim(len(rows) - 0.5 + 0.35 * len(goals), -0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel(axis)
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    stem.parent.mkdir(parents=True, exist_ok=True)
    svg, png = stem.with_suffix(".svg"), stem.with_suffix(".png")
    with rc_context({"svg.hashsalt": "bench"}):
        figure.savefig(svg, metadata={"Date": None})
    figure.savefig(png, dpi=130)
    return [svg, png]
