"""stats: the figures of a status location, once or live.

The server's side is ``GET <status location>/json``; docs/status.md has what it
answers.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Optional

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sendfilectl.errors import CtlError
from sendfilectl.http_client import Client
from sendfilectl.status import number, objects, printable, read

_VERSION = 1

# columns of text that is no terminal's
_WIDTH = 160

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

_ENDS = ("hit", "miss", "error", "timeout", "down")


def figures(client: Client) -> dict[str, Any]:
    """The figures as they are now.

    Raises:
        CtlError: there are none.
    """
    found = read(client, "/json")
    version = found.get("version")
    if version != _VERSION:
        raise CtlError(
            f"{client.url.text}: has figures of version {printable(version) or '?'}, "
            f"this sendfilectl knows {_VERSION}: install the one of that module"
        )
    return found


@dataclass(frozen=True)
class Change:
    """Figures, and those of before.

    Attributes:
        now: all there is.
        before: a while ago; None to look at the sums since the start.
    """

    now: dict[str, Any]
    before: Optional[dict[str, Any]] = None

    @property
    def seconds(self) -> float:
        """The time between the two."""
        since = (
            number(self.before, "time") if self.before else number(self.now, "start")
        )
        return max(number(self.now, "time") - since, 0.001)

    def sub(self, name: str, *keys: str) -> Iterator[Change]:
        """The objects of an array, each with that of before with the same names."""
        old = {
            tuple(printable(one.get(key)) for key in keys): one
            for one in objects(self.before, name)
        }
        for one in objects(self.now, name):
            if one.get("configured") is False:
                # a reload has removed it; what it had is in the sums
                continue
            same = tuple(printable(one.get(key)) for key in keys)
            yield Change(one, old.get(same, {}) if self.before is not None else None)

    def more(self, *path: str) -> float:
        """By how much a counter has grown; a restart begins with 0."""
        now = number(self.now, *path)
        was = number(self.before, *path)
        return now - was if now >= was else now


def since(now: dict[str, Any], before: dict[str, Any] | None) -> Change:
    """What has changed; all there is, if counting has begun anew meanwhile."""
    if before is not None and number(before, "start") != number(now, "start"):
        before = {"time": number(now, "start")}
    return Change(now, before)


def quantile(change: Change, share: float) -> float | None:
    """A quantile of a histogram, as Prometheus estimates it; None without data.

    Args:
        change: whose "buckets" are cumulative.
        share: such as 0.99.
    """
    counts = [
        (number(new.now, "le"), new.more("count"))
        for new in change.sub("buckets", "le")
    ]
    total = change.more("count")
    if total <= 0 or not counts:
        return None
    rank = share * total
    low, below = 0.0, 0.0
    for high, count in counts:
        if count >= rank:
            width = count - below
            return low + (high - low) * ((rank - below) / width if width else 1.0)
        low, below = high, count
    # over the last of them
    return low


def _bytes(value: float) -> str:
    unit = 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value /= 1024
        unit += 1
    return f"{value:.0f} {_UNITS[unit]}" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def _count(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ")


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole > 0 else "-"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1000 * seconds:.2f} ms"


def _duration(seconds: float) -> str:
    whole = int(seconds)
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    text = f"{hours:02}:{minutes:02}:{rest:02}"
    return f"{days} d {text}" if days else text


def _table(columns: Sequence[str], words: int = 1) -> Table:
    """A table whose first columns have words, and the others numbers."""
    table = Table(box=None, pad_edge=False)
    for at, name in enumerate(columns):
        table.add_column(
            name,
            justify="left" if at < words else "right",
            no_wrap=True,
            overflow="ellipsis",
        )
    return table


@dataclass
class View:
    """What is shown.

    Attributes:
        change: the figures.
        rates: numbers are for a second; else they are sums.
        problem: why they are old, "" if they are not.
    """

    change: Change
    rates: bool = False
    problem: str = ""
    parts: list[RenderableType] = field(default_factory=list)

    def __rich__(self) -> RenderableType:
        self.parts = []
        self._head()
        self._requests()
        self._failures()
        self._stores()
        self._zones()
        self._others()
        return Group(*self.parts)

    def _n(self, change: Change, *path: str) -> str:
        more = change.more(*path)
        if not self.rates:
            return _count(more)
        rate = more / self.change.seconds
        return f"{rate:.1f}/s" if rate < 100 else f"{_count(rate)}/s"

    def _head(self) -> None:
        now = self.change.now
        age = number(now, "time") - number(now, "start")
        self.parts.append(
            Text(
                f"ngx_sendfile {printable(now.get('module'))}, nginx "
                f"{printable(now.get('nginx'))}, counting for {_duration(age)}"
            )
        )
        if self.problem:
            self.parts.append(Text(self.problem, style="bold red"))

    def _requests(self) -> None:
        change = self.change
        rows = [
            ("requests", self._n(change, "requests", "total")),
            ("without the application", self._n(change, "requests", "app_avoided")),
            (
                "",
                _share(
                    change.more("requests", "app_avoided"),
                    change.more("requests", "total"),
                ),
            ),
        ]
        for way in ("direct", "redirect"):
            files = self._n(change, "requests", "sent", way, "files")
            size = change.more("requests", "sent", way, "bytes")
            if number(change.now, "requests", "sent", way, "files"):
                said = _bytes(size / change.seconds if self.rates else size)
                rows.append((f"files sent, {way}", files))
                rows.append(("", f"{said}/s" if self.rates else said))
        table = _table(("", ""))
        table.show_header = False
        for row in rows:
            table.add_row(*row)
        self.parts.append(table)
        table = _table(("location", "host", "result", "source", "requests"), 4)
        for place in change.sub("locations", "location", "host"):
            for one in place.sub("requests", "result", "source"):
                table.add_row(
                    *(printable(place.now.get(key)) for key in ("location", "host")),
                    *(printable(one.now.get(key)) for key in ("result", "source")),
                    self._n(one, "count"),
                )
        self._add(table)

    def _failures(self) -> None:
        found = self.change.now.get("requests")
        kinds = found.get("failures") if isinstance(found, dict) else None
        table = _table(("no file, because of", "requests"))
        for kind in kinds if isinstance(kinds, dict) else ():
            if number(kinds, kind):
                table.add_row(
                    printable(kind), self._n(self.change, "requests", "failures", kind)
                )
        self._add(table)

    def _stores(self) -> None:
        for one in self.change.sub("stores", "store", "server"):
            name = printable(one.now.get("store"))
            server = printable(one.now.get("server"))
            if server not in name:
                name = f"{name}, {server}"
            up = one.now.get("up") is not False
            state = Text("up  ") if up else Text("DOWN", style="bold red")
            self.parts += [Text(""), Text.assemble(state, f"  {name}")]
            spent = Change(
                one.now.get("duration") or {},
                None if one.before is None else one.before.get("duration") or {},
            )
            batches = one.more("batch", "count")
            table = _table((*_ENDS, "p50", "p99", "keys at once"), words=0)
            table.add_row(
                *(self._n(one, "lookups", end) for end in _ENDS),
                _ms(quantile(spent, 0.5)),
                _ms(quantile(spent, 0.99)),
                f"{one.more('batch', 'sum') / batches:.1f}" if batches else "-",
            )
            self.parts.append(Padding(table, (0, 0, 0, 6)))

    def _zones(self) -> None:
        columns = ("zone", "size", "used", "entries", "known misses", "found")
        table = _table((*columns, "evicted", "refused"))
        for one in self.change.sub("zones", "zone"):
            hits = sum(
                one.more("hits", kind)
                for kind in ("record", "negative", "learned", "body")
            )
            misses = sum(
                one.more("misses", kind) for kind in ("record", "learned", "body")
            )
            refused = sum(
                one.more("refusals", kind)
                for kind in ("record", "negative", "learned", "body")
            )
            evicted = one.more("evictions", "positive") + one.more(
                "evictions", "negative"
            )
            scale = 1 / self.change.seconds if self.rates else 1.0
            size = number(one.now, "size")
            table.add_row(
                printable(one.now.get("zone")),
                _bytes(size),
                _share(number(one.now, "bytes"), size),
                _count(number(one.now, "entries", "positive")),
                _count(number(one.now, "entries", "negative")),
                _share(hits, hits + misses),
                _count(evicted * scale),
                _count(refused * scale),
            )
        self._add(table)

    def _others(self) -> None:
        change = self.change
        table = _table(("", ""))
        table.show_header = False
        if number(change.now, "learn", "kept") or objects(
            change.now.get("learn"), "refused"
        ):
            table.add_row("learned", self._n(change, "learn", "kept"))
        learn = Change(
            change.now.get("learn") or {},
            None if change.before is None else change.before.get("learn") or {},
        )
        for one in learn.sub("refused", "reason"):
            table.add_row(
                f"not learned: {printable(one.now.get('reason'))}",
                self._n(one, "count"),
            )
        for kind in ("key", "url", "all"):
            if number(change.now, "purges", kind):
                table.add_row(f"purges, {kind}", self._n(change, "purges", kind))
        for kind in ("runs", "stopped"):
            if number(change.now, "ruby", kind):
                table.add_row(f"ruby, {kind}", self._n(change, "ruby", kind))
        self._add(table)

    def _add(self, table: Table) -> None:
        if table.row_count:
            self.parts.append(Text(""))
            self.parts.append(table)


def lines(document: dict[str, Any]) -> list[str]:
    """The sums for people, without colours."""
    console = Console(
        file=io.StringIO(), width=_WIDTH, color_system=None, force_terminal=False
    )
    console.print(View(Change(document)))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return [line.rstrip() for line in str(text).splitlines()]


def live(client: Client, interval: float) -> NoReturn:
    """Shows the figures of each interval, live, until a signal ends it.

    Args:
        client: of the status location.
        interval: seconds.

    Raises:
        CtlError: there are no figures at first; later ones are waited for. Or
            there is no terminal any more.
    """
    now = figures(client)
    view = View(since(now, None))
    console = Console(file=sys.stdout)
    with Live(view, console=console, auto_refresh=False, screen=True) as shown:
        while True:
            shown.update(view, refresh=True)
            time.sleep(interval)
            if not sys.stdout.isatty():
                raise CtlError("the terminal is gone")
            before = now
            try:
                now = figures(client)
            except CtlError as error:
                view = View(view.change, view.rates, f"{error}")
                continue
            view = View(since(now, before), rates=True)
