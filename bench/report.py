"""Writes what was measured: a summary, configurations, Markdown and a chart.

Of the rounds a summary has the spread and not each sample; the chart is drawn
from the summary alone.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.model import Metric, Outcome, Proof
from bench.plots import Chart, Row, draw_file
from bench.runner import Plan
from bench.stats import (
    Figure,
    Ratio,
    Spread,
    cpu_spread,
    rate_spread,
    spread,
    store_spread,
)
from bench.tables import Finding, Table

SCHEMA = 2

# Of what is kept: the rounds differ by more.
_DIGITS = 5

_ROUNDS = "bar: median; line: lowest to highest round, thick: half of them"
_AXES: Mapping[Metric, str] = {
    "cpu": f"CPU of the workers alone, µs per request ({_ROUNDS})",
    "rate": f"requests per second ({_ROUNDS})",
}
# where a summary has them
_FIGURES: Mapping[Metric, str] = {
    "cpu": "cpu_us_per_request",
    "rate": "requests_per_second",
}

_PREAMBLE = """\
# Benchmarks

`make bench` measures every table below on your machine and rewrites it here;
`make bench TABLE=cache` measures one, `QUICK=1` only shows that it works. The
tables are `lookup`, `cache`, `disk`, `big-file`, `small-files`, `workers`,
`keepalive`, `x-sendfile`, `script` and `records`; `id-lookup`, `memory`, `scan`,
`profile` and `cost` are studies of their own.

The systems that are compared are Debian's, or what is installed in their place
(the versions stand below each table), each with a configuration that those who
know it would accept; one that is not installed, or does something wrong, is named
and not averaged. The load comes from wrk, ab and httperf, and for a fixed
rate from oha. The applications are those of [bench/apps](../bench/apps/), at the
commit that is named. Your own URLs against your own server: `sendfilectl bench`.

[bench/results](../bench/results/) keeps a summary of each table, by date: medians
and spreads of the rounds, not each round. The charts are drawn from it;
`python -m bench --draw` draws them anew.

**What two shared cores can show.** Ratios of CPU per request within one run: the
contestants take turns, so whatever else the machine does meets all of them. A
ratio is the median of the ratios round by round; beside it stand the lowest and
highest round. Before a timed run the benchmark waits, for a limited time, until
nothing else runs, and repeats a run in which another process had the worker's
core for more than 5 % of the time; "waited for its core" shows what remained.
"Busy" is the share of the time in which the server ran: where it is far from
100 %, the load generator was what limited the rate.
Where a contestant has several processes that share a core, they wait for each
other: there "waited" says little, and no run is repeated for it.
Equal servers are run twice: what their ratio differs from 1 is the
machine's own noise, and a difference smaller than that says nothing.
**What they cannot show**: rates of a machine with many cores or a real network
card, or disks (all files are in memory); only `id-lookup` tells latency at a fixed
rate. The worker also pays for the kernel's sending and for waking wrk whenever that has nothing
left to read, 5 to 15 % of its time, which differs a little from run to run.
"""


@dataclass(frozen=True)
class Record:
    """A finished run of one table."""

    table: Table
    outcomes: Mapping[str, Outcome]
    ratios: Sequence[Ratio]
    plan: Plan
    date: str
    facts: Mapping[str, str]
    figures: Sequence[Figure] = ()


@dataclass(frozen=True)
class Places:
    """Where a run is written.

    ``repository`` is replaced by ``@REPOSITORY@`` in kept configurations, as
    it differs from machine to machine.
    """

    results: Path
    document: Path
    repository: Path


def write(record: Record, places: Places) -> list[Path]:
    """Write everything.

    Args:
        record: the run.
        places: where to.

    Returns:
        The files written.
    """
    name = record.table.name
    data = _rounded(as_json(record))
    written = [_write_json(name, data, record.date, places), places.document]
    files = {
        f"{outcome.name}.conf": outcome.configuration
        for outcome in record.outcomes.values()
        if outcome.configuration
    }
    written += _write_files(name, files, record.date, places)
    plot = _draw(name, data, places)
    written += [plot] if plot else []
    section = render(record, places, plot)
    _write_section(name, section, places)
    return written


def write_finding(
    finding: Finding, date: str, facts: Mapping[str, str], places: Places
) -> list[Path]:
    """Write a study's finding.

    Args:
        finding: what it found.
        date: of the run.
        facts: of the machine and the programs.
        places: where to.

    Returns:
        The files written.
    """
    name = finding.name
    data = _rounded(
        {
            "title": finding.title,
            "date": date,
            "facts": dict(facts),
            "goals": [asdict(goal) for goal in finding.goals],
            "tables": [
                {"header": list(header), "rows": [list(row) for row in rows]}
                for header, rows in finding.tables
            ],
            "chart": _bars(finding),
            **finding.data,
        }
    )
    written = [_write_json(name, data, date, places), places.document]
    written += _write_files(name, finding.files, date, places)
    plot = _draw(name, data, places)
    written += [plot] if plot else []
    base = places.document.parent
    parts = [f"## {finding.title}", finding.about.strip()]
    if plot:
        parts.append(f"![{finding.title}]({_link(plot, base)})")
    parts.append(finding_summary(finding))
    said = "; ".join(f"{fact}: {value}" for fact, value in facts.items())
    parts.append(f"{date}. {said}.")
    if finding.files:
        directory = _directory(name, date, places)
        parts[-1] += f" Exact configurations: [{name}]({_link(directory, base)}/)."
    _write_section(name, "\n\n".join(parts), places)
    return written


def finding_summary(finding: Finding) -> str:
    """Return a finding's tables for a terminal."""
    parts = []
    if finding.goals:
        verdicts = {None: "", True: "met", False: "not met"}
        rows = [[g.title, g.figure, g.goal, verdicts[g.met]] for g in finding.goals]
        parts.append(_markdown(["", "measured", "goal", ""], rows))
    parts += [_markdown(header, rows) for header, rows in finding.tables]
    return "\n\n".join([*parts, *finding.notes])


def draw_kept(places: Places) -> list[Path]:
    """Draw all charts anew from the results, each from its last day's.

    Args:
        places: where the results are, and the document beside the charts.

    Returns:
        The charts.
    """
    last = {
        name: data
        for path in sorted(places.results.glob("*.json"))
        for name, data in json.loads(path.read_text())["tables"].items()
    }
    drawn = [_draw(name, data, places) for name, data in last.items()]
    return [path for path in drawn if path is not None]


def _draw(name: str, data: Mapping[str, Any], places: Places) -> Path | None:
    """Draw a summary's chart; None if it has none."""
    if data["chart"] is None:
        return None
    path = places.document.with_suffix("") / f"{name}.svg"
    draw_file(_chart_of(data), path)
    return path


def _write_section(name: str, section: str, places: Places) -> None:
    places.document.parent.mkdir(parents=True, exist_ok=True)
    old = places.document.read_text() if places.document.exists() else _PREAMBLE
    places.document.write_text(replace_section(old, name, section))


def replace_section(document: str, name: str, section: str) -> str:
    """Put a section between its markers, or at the end if there are none.

    Args:
        document: Markdown.
        name: of the table; part of the markers.
        section: the new text.

    Raises:
        ValueError: one marker without the other, or in the wrong order.
    """
    begin, end = f"<!-- bench:{name}:begin -->", f"<!-- bench:{name}:end -->"
    block = f"{begin}\n{section.strip()}\n{end}"
    if begin not in document and end not in document:
        return f"{document.rstrip()}\n\n{block}\n"
    before, found, rest = document.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"the markers {begin} and {end} do not match")
    return f"{before}{block}{after}"


def as_json(record: Record) -> dict[str, object]:
    """Return a run as plain data: spreads, ratios, failures, the chart."""
    return {
        "title": record.table.title,
        "date": record.date,
        "facts": dict(record.facts),
        "plan": asdict(record.plan),
        "contestants": {
            name: _outcome_json(outcome) for name, outcome in record.outcomes.items()
        },
        "ratios": [
            {
                "title": ratio.comparison.title,
                "of": ratio.comparison.of,
                "to": ratio.to,
                "metric": ratio.comparison.metric,
                "goal": ratio.comparison.goal,
                "noise": ratio.noise,
                "met": ratio.met,
                "spread": asdict(ratio.spread) if ratio.spread else None,
                "missing": ratio.missing,
            }
            for ratio in record.ratios
        ],
        "figures": [{**asdict(figure), "met": figure.met} for figure in record.figures],
        "chart": _chart(record),
    }


def _outcome_json(outcome: Outcome) -> dict[str, object]:
    found: dict[str, object] = {"title": outcome.title, "role": outcome.role}
    if outcome.failure is not None:
        return {**found, "failure": asdict(outcome.failure)}
    if not outcome.samples:
        return found
    samples = outcome.samples
    loads = [sample.load for sample in samples]
    store = store_spread(outcome)
    asked, hits = _asked(outcome)
    found |= {
        "rounds": len(samples),
        "answers": sum(load.requests for load in loads),
        "cpu_us_per_request": asdict(cpu_spread(outcome)),
        "requests_per_second": asdict(rate_spread(outcome)),
        "latency_p50_us": _known_median([load.latency_p50_us for load in loads]),
        "latency_p99_us": _known_median([load.latency_p99_us for load in loads]),
        "busy": spread([sample.busy for sample in samples]).median,
        "wait_share": spread([sample.wait_share for sample in samples]).median,
        "reads": sum(sample.reads for sample in samples),
    }
    if store is not None:
        found["store_cpu_us_per_request"] = asdict(store)
        found |= {"store_gets": asked, "store_hits": hits}
    if outcome.memory is not None:
        found["memory"] = asdict(outcome.memory)
    if outcome.proof is not None:
        found["proof"] = asdict(outcome.proof)
    return found


def _known_median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return spread(known).median if known else None


def _rounded(value: Any) -> Any:
    """Shorten the fractions in plain data."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return value


def _write_json(
    name: str, data: Mapping[str, object], date: str, places: Places
) -> Path:
    path = places.results / f"{date}.json"
    document: dict[str, Any] = {"schema": SCHEMA, "tables": {}}
    if path.exists():
        document = json.loads(path.read_text())
    document["tables"][name] = data
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_lines(document, 4) + "\n")
    return path


def _lines(value: object, levels: int) -> str:
    """Return JSON with a line for each part of the upper levels."""
    if not levels or not value or not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, dict):
        parts = [
            f"{json.dumps(key)}: {_lines(inner, levels - 1)}"
            for key, inner in value.items()
        ]
        begin, end = "{", "}"
    else:
        parts = [_lines(inner, levels - 1) for inner in value]
        begin, end = "[", "]"
    inside = ",\n".join(parts)
    return f"{begin}\n{inside}\n{end}"


def _directory(name: str, date: str, places: Places) -> Path:
    return places.results / date / name


def _write_files(
    name: str, files: Mapping[str, str], date: str, places: Places
) -> list[Path]:
    directory = _directory(name, date, places)
    # Of an earlier run that day, whose contestants may have been others.
    for path in directory.glob("*.conf"):
        path.unlink()
    written = []
    first: dict[str, str] = {}
    for file, text in files.items():
        like = first.setdefault(_general(text), file)
        if like == file:
            kept = _abridged(text.replace(str(places.repository), "@REPOSITORY@"))
        else:
            kept = f"# the same as {like}, but for names and ports\n"
        path = directory / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(kept)
        written.append(path)
    return written


def _general(text: str) -> str:
    """Return a configuration without what differs between equal contestants."""
    text = re.sub(r"^# Contestant .*\n", "", text)
    text = re.sub(r"\brun-\w+/[\w-]+", "", text)
    return re.sub(r":\d{4,5}\b", "", text)


def _abridged(text: str) -> str:
    """Shorten words of more than 200 bytes, such as an answer's body."""
    return re.sub(
        r"\S{201,}", lambda found: f"{found[0][:20]}...({len(found[0])} bytes)", text
    )


def _chart(record: Record) -> dict[str, object] | None:
    """Name what is drawn of a run, None if nothing was measured."""
    metric = record.table.metric
    bars = {
        outcome.name: Row(outcome.title, outcome.role, rounds.median, rounds)
        for outcome in record.outcomes.values()
        if outcome.measured and outcome.name not in record.table.unplotted
        for rounds in [spread([sample.value(metric) for sample in outcome.samples])]
    }
    if not bars:
        return None
    return {
        "metric": metric,
        "bars": list(bars),
        "line": _baseline(list(bars.values())),
        "goals": [list(goal) for goal in _goal_lines(record)],
    }


def _bars(finding: Finding) -> dict[str, object] | None:
    """Say what is drawn of a finding, None if nothing is."""
    if not finding.bars:
        return None
    return {
        "axis": finding.axis,
        "bars": [[row.label, row.role, row.median] for row in finding.bars],
        "line": finding.line,
        "goals": [],
    }


def _chart_of(data: Mapping[str, Any]) -> Chart:
    """Make the chart of a summary that has one."""
    kept = data["chart"]
    metric = kept.get("metric")
    if metric is None:
        rows = [Row(*bar) for bar in kept["bars"]]
    else:
        drawn = [data["contestants"][name] for name in kept["bars"]]
        rows = [
            Row(one["title"], one["role"], rounds.median, rounds)
            for one in drawn
            for rounds in [Spread(**one[_FIGURES[metric]])]
        ]
    return Chart(
        data["title"],
        kept["axis"] if metric is None else _AXES[metric],
        rows,
        kept["line"],
        [(label, where) for label, where in kept["goals"]],
    )


def _baseline(rows: Sequence[Row]) -> float | None:
    """Where all bars have one baseline, that; of two the lower."""
    baselines = [row.median for row in rows if row.role == "baseline"]
    return min(baselines) if 0 < len(baselines) <= 2 else None


def _goal_lines(record: Record) -> list[tuple[str, float]]:
    """Say where the bar of ours must end, if there is one of ours with goals."""
    metric = record.table.metric
    found = [
        ratio
        for ratio in record.ratios
        if ratio.comparison.goal is not None
        and ratio.comparison.metric == metric
        and ratio.comparison.grown_from is None
        and ratio.to is not None
    ]
    if len({ratio.comparison.of for ratio in found}) != 1:
        return []
    return [
        (f"goal: {ratio.comparison.goal} × {ratio.to}", ratio.comparison.goal * median)
        for ratio in found
        if ratio.to is not None and ratio.comparison.goal is not None
        for median in [
            spread([s.value(metric) for s in record.outcomes[ratio.to].samples]).median
        ]
    ]


def render(record: Record, places: Places, plot: Path | None) -> str:
    """Return a run as a section of Markdown.

    Args:
        record: the run.
        places: links are relative to the document's directory.
        plot: the picture, or None.
    """
    base = places.document.parent
    parts = [f"## {record.table.title}", record.table.about.strip()]
    if plot is not None:
        parts.append(f"![{record.table.title}]({_link(plot, base)})")
    parts.append(_figures(record))
    parts += _results(record)
    parts += _notes(record)
    parts.append(_conditions(record, places, base))
    return "\n\n".join(parts)


def summary(record: Record) -> str:
    """Return the figures and ratios for a terminal."""
    return "\n\n".join([_figures(record), *_results(record), *_notes(record)])


def _results(record: Record) -> list[str]:
    parts = [_ratio_table(record.ratios)]
    if record.figures:
        parts.append(_figure_table(record.figures))
    return parts


def _link(path: Path, base: Path) -> str:
    return os.path.relpath(path, base)


def _figures(record: Record) -> str:
    rows = []
    for outcome in record.outcomes.values():
        if outcome.measured:
            cpu = cpu_spread(outcome)
            rate = spread([s.requests_per_second for s in outcome.samples]).median
            store = store_spread(outcome)
            wait = spread([s.wait_share for s in outcome.samples])
            busy = spread([s.busy for s in outcome.samples])
            rows.append(
                [
                    outcome.title,
                    f"{cpu.median:.2f}",
                    f"{cpu.low:.2f}–{cpu.high:.2f}",
                    f"{store.median:.2f}" if store else "",
                    f"{rate:,.0f}",
                    _latency([s.load.latency_p50_us for s in outcome.samples]),
                    _latency([s.load.latency_p99_us for s in outcome.samples]),
                    f"{busy.median:.0%}",
                    f"{wait.median:.1%}",
                    f"{outcome.memory.anonymous_kib:,}" if outcome.memory else "",
                    f"{outcome.memory.rss_kib:,}" if outcome.memory else "",
                ]
            )
        else:
            rows.append([outcome.title, *["–"] * 10])
    header = [
        "contestant",
        "CPU µs/request",
        "lowest–highest round",
        "its store's CPU µs/request",
        "requests/s",
        "p50 µs",
        "p99 µs",
        "busy",
        "waited for its core",
        "private KiB",
        "RSS KiB",
    ]
    return _markdown(header, rows)


def _latency(values: Sequence[float | None]) -> str:
    median = _known_median(values)
    return "–" if median is None else f"{median:,.0f}"


def _ratio_table(ratios: Sequence[Ratio]) -> str:
    rows = []
    for ratio in ratios:
        comparison = ratio.comparison
        if ratio.spread is None:
            figures = ["–", "–", f"not known: {ratio.missing}"]
        else:
            verdict = {None: "", True: "met", False: "not met"}[ratio.met]
            figures = [*_ratio_figures(ratio.spread, comparison.goal), verdict]
        title = comparison.title
        if len(comparison.to) > 1 and ratio.to:
            title = f"{title} ({ratio.to})"
        rows.append([title, *figures[:2], _goal(ratio), figures[2]])
    header = [
        "ratio of CPU per request, or of throughput",
        "median",
        "lowest–highest",
        "goal",
        "",
    ]
    return _markdown(header, rows)


def _goal(ratio: Ratio) -> str:
    comparison = ratio.comparison
    if comparison.goal is None:
        return ""
    sign, side = ("≥", "−") if comparison.metric == "rate" else ("≤", "+")
    noise = f" {side} {ratio.noise:.3f} (noise)" if comparison.noise else ""
    return f"{sign} {comparison.goal}{noise}"


def _figure_table(figures: Sequence[Figure]) -> str:
    rows = []
    for figure in figures:
        if figure.spread is None:
            cells = ["–", "–", f"not known: {figure.missing}"]
        else:
            values = figure.spread
            verdict = {None: "", True: "met", False: "not met"}[figure.met]
            cells = [
                f"{values.median:.2f}",
                f"{values.low:.2f} to {values.high:.2f}",
                verdict,
            ]
        goal = "" if figure.goal is None else f"≤ {figure.goal:g}"
        rows.append([figure.title, *cells[:2], goal, cells[2]])
    return _markdown(["µs", "median", "lowest to highest", "goal", ""], rows)


def _ratio_figures(values: Spread, goal: float | None) -> list[str]:
    # As many digits as it takes to see on which side of its goal it is.
    digits = 3
    while goal is not None and values.median != goal and digits < 6:
        if float(f"{values.median:.{digits}f}") != goal:
            break
        digits += 1
    return [f"{values.median:.{digits}f}", f"{values.low:.3f}–{values.high:.3f}"]


def _notes(record: Record) -> list[str]:
    notes = []
    proofs = [o for o in record.outcomes.values() if o.proof is not None]
    if proofs:
        listed = "; ".join(
            f"{o.name}: {o.proof.requests:,} answers, {sum(o.proof.lines.values()):,}"
            f" lines, {_share(o.proof)} `{o.proof.expected}`"
            for o in proofs
            if o.proof is not None
        )
        notes.append(
            "What each request did: an untimed run with an access log gave, for answers counted by the load generator and lines logged"
            " (up to one more for each connection, cut off at the end): "
            f"{listed}."
        )
    memory = [
        entry.contestant.name
        for entry in record.table.entries
        if entry.reads is not None and record.outcomes[entry.contestant.name].measured
    ]
    if memory:
        listed = "; ".join(
            f"{name}: {sum(s.load.requests for s in samples):,} answers,"
            f" {sum(s.reads for s in samples):,} reads"
            for name in memory
            for samples in [record.outcomes[name].samples]
        )
        notes.append(
            "The bodies came from memory: in the timed runs the kernel counted these"
            " system calls of the workers that read a file (read, pread, sendfile):"
            f" {listed}."
        )
    stores = [o for o in record.outcomes.values() if o.measured and _asked(o)[0]]
    if stores:
        listed = "; ".join(
            f"{o.name}: {sum(s.load.requests for s in o.samples):,} answers,"
            f" {_asked(o)[0]:,} keys asked for, {_asked(o)[1]:,} found"
            for o in stores
        )
        notes.append(
            "The store was asked for each request, by its own counters in every timed"
            " run (1 % less may have shared an answer that was under way; up to 1 %"
            " and one for each connection more, cut off at the end): "
            f"{listed}."
        )
    failures = [o for o in record.outcomes.values() if o.failure is not None]
    if failures:
        listed = "\n".join(
            f"- {o.title} ({o.name}): {o.failure.stage}: {o.failure.reason}"
            for o in failures
            if o.failure is not None
        )
        notes.append(f"**Not measured:**\n\n{listed}")
    return notes


def _share(proof: Proof) -> str:
    others = sum(proof.lines.values()) - proof.lines.get(proof.expected, 0)
    return f"all but {others}" if others else "all"


def _asked(outcome: Outcome) -> tuple[int, int]:
    """Sum what the store counted in all timed runs: asked for, found."""
    uses = [sample.store for sample in outcome.samples if sample.store is not None]
    return sum(use.gets for use in uses), sum(use.hits for use in uses)


def _conditions(record: Record, places: Places, base: Path) -> str:
    facts = "; ".join(f"{name}: {value}" for name, value in record.facts.items())
    plan = record.plan
    directory = _directory(record.table.name, record.date, places)
    return (
        f"{record.date}, {plan.rounds} rounds of"
        f" {record.table.run or f'{plan.seconds} s'}, seed {plan.seed}."
        f" Every contestant with figures answered {plan.checks} random requests, byte"
        f" for byte, before and after the rounds, and {plan.spot_checks} after each"
        f" timed run; of all others the load generator saw status and length."
        f" {facts}. Exact configurations: [{directory.name}]"
        f"({_link(directory, base)}/)."
    )


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    rule = "|---" + "|---:" * (len(header) - 1) + "|"
    return "\n".join([line(header), rule, *map(line, rows)])
