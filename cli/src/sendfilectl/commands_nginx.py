"""The commands that ask nginx, not a store.

Their annotations are no strings, since typer cannot read such in Python 3.9.
"""

import os
import signal
import sys
import time
from contextlib import closing
from typing import Annotated, Optional

import typer

from sendfilectl.errors import UsageError
from sendfilectl.importer import source
from sendfilectl.options import (
    DEFAULT_STATUS,
    MAX_SECONDS,
    HttpConnectTimeoutOpt,
    HttpTimeoutOpt,
    JsonOpt,
    StatusOpt,
    finite,
)
from sendfilectl.output import Output
from sendfilectl.signals import Interrupted


def purge(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="Of the location with http_sendfile_status write, such as "
            "http://127.0.0.1:8080/sendfile-status",
            show_default=False,
        ),
    ],
    ids: Annotated[
        Optional[list[str]],
        typer.Argument(metavar="ID...", help="- is stdin.", show_default=False),
    ] = None,
    urls: Annotated[
        Optional[list[str]],
        typer.Option(
            "--url",
            metavar="URL",
            help="What was learned for a URL, in place of IDs; repeatable, - is stdin.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that it has.")] = False,
    from_: Annotated[
        Optional[str],
        typer.Option("--from", metavar="FILE|-", help="A file of IDs, one on a line."),
    ] = None,
    connect_timeout: HttpConnectTimeoutOpt = 1.0,
    timeout: HttpTimeoutOpt = 5.0,
    json: JsonOpt = False,
) -> None:
    """Let nginx forget what its cache has for some IDs or URLs, or for all.

    The stores are not touched: the next request for an ID asks them. What was
    learned from the application goes with the ID that it was learned by, or
    with --url by the URL, as clients ask for it. That there was nothing to
    forget is no failure. A bad ID or URL is reported and passed over; the exit
    code is then 1.

    The location's URL may be https://, with user:password@ before the host,
    or http+unix://%2Frun%2Fnginx.sock/location for a unix socket.

    \b
    Examples:
      sendfilectl purge http://127.0.0.1:8080/sendfile-status 297887
      sendfilectl purge http://127.0.0.1:8080/sendfile-status --all
      sendfilectl purge http://127.0.0.1:8080/sendfile-status
          --url https://www.example.com/report?year=2024
      psql -Atc "select id from files where changed" |
          sendfilectl purge http://127.0.0.1:8080/sendfile-status -
    """
    from sendfilectl.http_client import parse_http_url
    from sendfilectl.purge import (
        Purged,
        Purger,
        purge_lines,
        purge_names,
    )

    out = Output(json)
    where = parse_http_url(url)
    words, kinds = [*(ids or []), *(urls or [])], bool(ids) + bool(urls)
    if kinds + everything + (from_ is not None) != 1:
        raise UsageError("write either IDs, or --url URL, or --all, or --from FILE")
    if words == ["-"]:
        words, from_ = [], "-"
    done = Purged(urls=bool(urls))
    if everything:
        out.on_interrupt(lambda: "all was purged, or nothing", dict, failure=False)
    else:
        out.on_interrupt(done.text, done.document, failure=len(words) != 1)
    with closing(Purger(where, connect_timeout, timeout, out.warn)) as purger:
        if everything:
            purger.all()
            out.result({"ok": True, "all": True}, "purged everything")
            return
        if from_ is not None:
            with source(from_) as src:
                purge_lines(purger, src, out, done)
        else:
            purge_names(purger, [os.fsencode(word) for word in words], out, done)
    ok = not done.failed
    out.result({"ok": ok, **done.document()}, done.text())
    if not ok:
        raise typer.Exit(1)


def bench(
    url_list: Annotated[
        str,
        typer.Argument(
            metavar="URL-LIST",
            help="A file of URLs, one on a line; - is stdin.",
            show_default=False,
        ),
    ],
    rate: Annotated[
        int,
        typer.Option(
            "--rate",
            metavar="N",
            min=1,
            help="Requests a second, whether they are answered or not.",
            show_default=False,
        ),
    ],
    duration: Annotated[
        str,
        typer.Option(
            "--duration",
            metavar="T",
            help="For how long: 30s, 5m.",
            show_default=False,
        ),
    ],
    connections: Annotated[
        int,
        typer.Option(
            "--connections", metavar="N", min=1, help="How many may be open at once."
        ),
    ] = 64,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=0.001,
            max=MAX_SECONDS,
            callback=finite,
            help="After so long a request has no answer.",
        ),
    ] = 5.0,
    oha: Annotated[
        Optional[str],
        typer.Option("--oha", metavar="PATH", help="The program oha, if not in PATH."),
    ] = None,
    json: JsonOpt = False,
) -> None:
    """Ask a server of yours for some URLs, at a fixed rate, with oha.

    The URLs are drawn at random. Latencies are measured from the moment at
    which a request was due; those that wait for a connection when the time is
    over are not sent, and counted. Prints rate, latencies and status codes; the
    exit code is 1 if a request had no answer, or one with status 400 or above.

    \b
    Examples:
      sendfilectl bench urls.txt --rate 1000 --duration 30s
      seq -f http://127.0.0.1:8080/file/%.0f 1 1000 |
          sendfilectl bench - --rate 200 --duration 10s --json
    """
    from sendfilectl.oha import find, milliseconds, run_bench, urls

    out = Output(json)
    length = milliseconds(duration)
    program = find(oha)
    with source(url_list) as src:
        found = urls(src.file, src.label)
    out.on_interrupt(lambda: "nothing is known of the requests so far", dict)
    measured = run_bench(program, found, rate, length, connections, timeout, out)
    unsent = measured.unsent(rate, length)
    found_out = {"asked_rate": rate, "unsent": unsent, **measured.document()}
    out.doc({"ok": measured.good, **found_out})
    for line in measured.lines():
        out.say(line)
    if measured.rate < 0.95 * rate:
        dropped = f"; {unsent} of the requests were never sent" if unsent else ""
        out.warn(
            f"{measured.rate:.0f} answers a second, {rate} were asked for{dropped}"
        )
    if not measured.good:
        raise typer.Exit(1)


def explain(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="As clients ask for it, or only its path.",
            show_default=False,
        ),
    ],
    status: StatusOpt = DEFAULT_STATUS,
    host: Annotated[
        Optional[str],
        typer.Option(
            "--host", metavar="NAME", help="The header Host, if not the URL's host."
        ),
    ] = None,
    connect_timeout: HttpConnectTimeoutOpt = 1.0,
    timeout: HttpTimeoutOpt = 5.0,
    json: JsonOpt = False,
) -> None:
    """Tell what nginx would do with a URL, and why not what you expect.

    Each step is shown: location, key, cache, store, record, file, with the mode
    bits of each folder on the way, and for a failure what to change. The
    application is not asked, nothing is learned, cached or sent. Exits with 1 if
    the client would get an error of http_sendfile.

    \b
    Examples:
      sendfilectl explain http://www.example.com/file/7
      sendfilectl explain /file/7 --status http://127.0.0.1:8081/sendfile-status
      sendfilectl explain /file/7 --host www.example.com --json
    """
    from sendfilectl.explain import explain as ask
    from sendfilectl.explain import explain_target, told
    from sendfilectl.http_client import Client, parse_http_url

    out = Output(json)
    where = parse_http_url(status)
    target = explain_target(url, host)
    with closing(Client(where, connect_timeout, timeout, out.warn)) as client:
        found = ask(client, target)
    good = found.get("outcome") != "failed"
    for line in told(found):
        out.say(line)
    out.doc({"ok": good, **found})
    if not good:
        raise typer.Exit(1)


def stats(
    status: StatusOpt = DEFAULT_STATUS,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show what happens, until Ctrl-C.")
    ] = False,
    interval: Annotated[
        float,
        typer.Option(
            "--interval",
            metavar="SECONDS",
            min=0.1,
            max=MAX_SECONDS,
            callback=finite,
            help="How often to look, with --watch.",
        ),
    ] = 1.0,
    connect_timeout: HttpConnectTimeoutOpt = 1.0,
    timeout: HttpTimeoutOpt = 5.0,
    json: JsonOpt = False,
) -> None:
    """Show what nginx has counted: requests, stores, cache zones, learned answers.

    Once, the sums since nginx was started; with --watch, live, what happens in a
    second. --json prints the document of the status location, with --watch one on
    each line. Ctrl-C is how --watch ends, with exit code 0.

    \b
    Examples:
      sendfilectl stats
      sendfilectl stats --watch --status http://127.0.0.1:8081/sendfile-status
      sendfilectl stats --watch --interval 10 --json >> figures.ndjson
    """
    from sendfilectl.http_client import Client, parse_http_url
    from sendfilectl.stats import figures, lines, live

    out = Output(json)
    where = parse_http_url(status)
    if watch and not json and not sys.stdout.isatty():
        raise UsageError("--watch needs a terminal, or --json for one line each time")
    with closing(Client(where, connect_timeout, timeout, out.warn)) as client:
        if not watch:
            found = figures(client)
            for line in lines(found):
                out.say(line)
            out.doc({"ok": True, **found})
            return
        try:
            if not json:
                live(client, interval)
            while True:
                out.doc({"ok": True, **figures(client)})
                time.sleep(interval)
        except Interrupted as error:
            if error.signum != signal.SIGINT:
                raise


def warm(
    url_list: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-",
            help="URLs or paths, one on a line, or an access log; - is stdin.",
            show_default=False,
        ),
    ],
    base: Annotated[
        Optional[str],
        typer.Option(
            "--base",
            metavar="URL",
            help="The server of paths and logs, such as http://127.0.0.1:8080",
        ),
    ] = None,
    host: Annotated[
        Optional[str],
        typer.Option(
            "--host", metavar="NAME", help="The header Host, if not the URL's host."
        ),
    ] = None,
    rate: Annotated[
        int,
        typer.Option(
            "--rate",
            metavar="N",
            min=1,
            max=1_000_000,
            help="Requests a second, at most.",
        ),
    ] = 100,
    connections: Annotated[
        int,
        typer.Option(
            "--connections", metavar="N", min=1, max=256, help="How many at once."
        ),
    ] = 4,
    head: Annotated[
        bool,
        typer.Option(
            "--head", help="Ask by HEAD: for records, not for files in memory."
        ),
    ] = False,
    connect_timeout: HttpConnectTimeoutOpt = 1.0,
    timeout: HttpTimeoutOpt = 5.0,
    json: JsonOpt = False,
) -> None:
    """Ask a server for URLs, so that its cache has them before clients do.

    The list has URLs, or paths with --base; or it is an access log in the format
    "combined", of which each GET and HEAD that was answered with 2xx or 3xx is
    asked for once. Redirects are not followed. The exit code is 1 if a request had
    no answer, or one with status 400 or above, or a line was no URL. Ctrl-C ends it
    with the summary.

    \b
    Examples:
      sendfilectl warm urls.txt --rate 500
      sendfilectl warm /var/log/nginx/access.log --base http://127.0.0.1
          --host www.example.com
      seq -f /file/%.0f 1 1000 | sendfilectl warm - --base http://127.0.0.1:8080
    """
    from sendfilectl.warm import Options, Warmed, Warmer, addresses, parse_base

    out = Output(json)
    if base is not None:
        base = base.rstrip("/")
        if parse_base(base).path:
            raise UsageError(f"--base {base}: leave the path away")
    options = Options(base, host, rate, connections, head, connect_timeout, timeout)
    done = Warmed()
    out.on_interrupt(done.text, done.document)
    with (
        source(url_list) as src,
        out.progress("warming", src.size, size=True) as progress,
    ):
        Warmer(options, out, done).run(addresses(src, base, out, done, progress))
    out.doc({"ok": done.good, **done.document()})
    for line in done.lines():
        out.say(line)
    if not done.good:
        raise typer.Exit(1)


def doctor(
    config: Annotated[
        Optional[str],
        typer.Argument(
            metavar="NGINX.CONF",
            help="The configuration; that which nginx is built with if it is left "
            "away.",
            show_default=False,
        ),
    ] = None,
    nginx: Annotated[
        Optional[str],
        typer.Option("--nginx", metavar="PATH", help="The program, if not in PATH."),
    ] = None,
    prefix: Annotated[
        Optional[str],
        typer.Option("--prefix", metavar="DIR", help="What nginx is started with -p."),
    ] = None,
    user: Annotated[
        Optional[str],
        typer.Option(
            "--user",
            metavar="NAME",
            help="Who the workers are, if nginx is not started by root.",
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=0.001,
            max=MAX_SECONDS,
            callback=finite,
            help="How long a memcached may take to answer.",
        ),
    ] = 1.0,
    json: JsonOpt = False,
) -> None:
    """Look for what is wrong with an nginx that has the module.

    Reads the configuration as nginx -T prints it, and looks at the module's
    version, permissions of files and stores for the workers' user, stores that do
    not answer, files that anybody may ask for, answers that are learned though
    they may be one user's, limits, cache zones and the kernel. Changes nothing.
    Run it as root: only root may look at all of it.

    Each finding says where it is, what is so, and what to write. An error is
    wrong now, a warning will be, a note is for you to say. Exits with 1 if there
    is any, and with 2 if there is nothing to look at.

    \b
    Examples:
      sendfilectl doctor
      sendfilectl doctor /etc/nginx/nginx.conf --json
      sendfilectl doctor conf/nginx.conf --nginx /opt/nginx/sbin/nginx
    """
    from sendfilectl.doctor.examine import examine
    from sendfilectl.doctor.finding import SEVERITIES

    out = Output(json)
    found = examine(config, nginx, prefix, user, timeout)
    for reason in found.unchecked:
        out.warn(f"not looked at: {reason}")
    for one in found.findings:
        out.say(one.told())
    counts = [
        f"{number} {severity}{'' if number == 1 else 's'}"
        for severity in SEVERITIES
        if (number := sum(one.severity == severity for one in found.findings))
    ]
    out.result(
        {
            "ok": not found.findings,
            "nginx": found.program.version,
            "program": found.program.path,
            "config": found.config.main,
            "user": found.user,
            "findings": [one.document() for one in found.findings],
            "unchecked": found.unchecked,
        },
        ", ".join(counts) or "nothing found",
    )
    if found.findings:
        raise typer.Exit(1)
