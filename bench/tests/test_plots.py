"""What is drawn."""

from xml.etree import ElementTree

from bench.plots import Chart, Row, draw
from bench.stats import spread

_SVG = "{http://www.w3.org/2000/svg}"


def _elements(chart: Chart, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(draw(chart)).iter(f"{_SVG}{tag}"))


def _kind(chart: Chart, kind: str) -> list[ElementTree.Element]:
    return [line for line in _elements(chart, "line") if line.get("class") == kind]


def test_bars_are_as_long_as_their_medians() -> None:
    chart = Chart("A & B", "µs <1>", [Row("a", "ours", 40), Row("`b`", "other", 20)])
    page, *bars = _elements(chart, "rect")
    assert page.get("class") == "page"
    assert [bar.get("class") for bar in bars] == ["ours", "other"]
    first, second = (float(bar.get("width", "")) for bar in bars)
    assert abs(first - 2 * second) < 0.2
    told = {text.text for text in _elements(chart, "text")}
    assert {"A & B", "µs <1>", "a", "b", "40.00", "20.00", "0"} <= told


def test_line_shows_the_rounds_of_what_was_measured_more_than_once() -> None:
    rounds = spread([10, 20, 30, 40, 50])
    chart = Chart("t", "x", [Row("a", "ours", 30, rounds), Row("b", "ours", 50)])
    (bar, _) = _elements(chart, "rect")[1:]
    (line,) = _kind(chart, "range")
    (middle,) = _kind(chart, "middle")
    left = float(bar.get("x", ""))
    unit = float(bar.get("width", "")) / 30
    for drawn, low, high in ((line, 10, 50), (middle, 20, 40)):
        assert abs(float(drawn.get("x1", "")) - left - low * unit) < 0.2
        assert abs(float(drawn.get("x2", "")) - left - high * unit) < 0.2


def test_everything_is_within_the_picture() -> None:
    rows = [
        Row("a rather long name of a contestant, on two cores", "ours", 9_876_543.2),
        Row("b", "floor", 0.0001, spread([0.0001, 2e7])),
    ]
    goals = [("goal: 0.8 × that which has a long name", 1.9e7), ("goal", 1.0)]
    chart = Chart("t", "x", rows, 1e7, goals)
    (svg,) = _elements(chart, "svg")
    width, height = (float(svg.get(name, "")) for name in ("width", "height"))
    for name, most in (("x", width), ("x1", width), ("x2", width), ("y", height)):
        for element in svg.iter():
            assert 0 <= float(element.get(name, "0")) <= most
    assert len(_kind(chart, "goal")) == 2
    assert len(_kind(chart, "line")) == 1
    told = [t for t in _elements(chart, "text") if t.get("class") == "told"]
    assert [t.get("text-anchor") for t in told] == ["end", "start"]


def test_colours_are_for_light_and_for_dark_pages() -> None:
    (style,) = _elements(Chart("t", "x", [Row("a", "ours", 1)]), "style")
    light, dark = (style.text or "").split("@media (prefers-color-scheme: dark)")
    for kind in (".page", ".baseline", ".noise", ".ours", ".other", ".floor"):
        assert f"{kind} {{ fill: #" in light
        assert f"{kind} {{ fill: #" in dark
