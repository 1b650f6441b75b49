"""The commands.

Their annotations are no strings, since typer cannot read such in Python 3.9.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Annotated, BinaryIO, Optional

import typer

from sendfilectl import __version__, arguments
from sendfilectl.commands_nginx import bench, doctor, explain, purge, stats, warm
from sendfilectl.contract import decode, show
from sendfilectl.errors import CtlError, Refused, StoreError, UsageError
from sendfilectl.formats import Writer, by_extension, describe
from sendfilectl.importer import BATCH, Result, load, source
from sendfilectl.options import (
    ConnectTimeoutOpt,
    DryRunOpt,
    FormatOpt,
    GroupOpt,
    JsonOpt,
    LmdbArg,
    ModeOpt,
    SingleOpt,
    StoreArg,
    TimeoutOpt,
    TtlOpt,
)
from sendfilectl.output import Output
from sendfilectl.scan import Rules, compile_regex, items, scan
from sendfilectl.sign import activestorage_key, sign
from sendfilectl.signals import shield
from sendfilectl.stores import (
    Item,
    Options,
    Outcome,
    Store,
    StoreUrl,
    batches,
    open_store,
    parse_url,
)
from sendfilectl.verify import Verifier

app = typer.Typer(
    name="sendfilectl",
    help="Fill and inspect the stores of the nginx module ngx_sendfile, "
    "purge its cache, and measure a server.",
    epilog="STORE is what the directive http_sendfile_lookup takes: lmdb:/path, "
    "memcached://host:port or memcached:/unix/socket. Several servers are one "
    "store: memcached://h1*2,h2,h3:11212?distribution=ketama. "
    "Exit codes: 0 done, 1 not found or failed, 2 usage.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"sendfilectl {__version__}")
        raise typer.Exit()


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


@contextmanager
def _opened(url: StoreUrl, out: Output, options: Options) -> Iterator[Store]:
    with closing(
        open_store(url, replace(options, note=out.warn, fail=out.fail))
    ) as opened:
        yield opened


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


@app.command("set")
def set_(
    store: StoreArg,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="ID PATH...",
            help="An ID and its path, or more pairs; ID=PATH does as well.",
            show_default=False,
        ),
    ],
    name: Annotated[
        Optional[str], typer.Option(help="Download file name, any UTF-8.")
    ] = None,
    type: Annotated[Optional[str], typer.Option(help="Content-Type.")] = None,
    disposition: Annotated[
        Optional[str],
        typer.Option(metavar="inline|attachment", help="Show it or save it."),
    ] = None,
    header: Annotated[
        Optional[list[str]],
        typer.Option(metavar="'NAME: VALUE'", help="Response header; repeatable."),
    ] = None,
    expires: Annotated[
        Optional[str],
        typer.Option(
            metavar="TIME",
            help="When the record ends: Unix seconds, +7d, or 2030-01-31T12:00:00Z.",
        ),
    ] = None,
    value: Annotated[
        Optional[str],
        typer.Option(metavar="JSON", help="The whole record; with one ID only."),
    ] = None,
    ttl: TtlOpt = None,
    single_file: SingleOpt = False,
    group: GroupOpt = None,
    mode: ModeOpt = None,
    connect_timeout: ConnectTimeoutOpt = None,
    timeout: TimeoutOpt = None,
    json: JsonOpt = False,
) -> None:
    """Store records. A store in LMDB is made if there is none.

    A path is relative to the root of the files. By itself it is stored as it
    is; with --name, --type and so on a JSON record is stored.

    \b
    Examples:
      sendfilectl set lmdb:/srv/ids 297887 29/7887.jpg
      sendfilectl set lmdb:/srv/ids 1 a.jpg 2 b.jpg
      sendfilectl set lmdb:/srv/ids 1=a.jpg 2=b.jpg
      sendfilectl set lmdb:/srv/ids 7 docs/7.pdf --name 'report.pdf' \\
          --disposition attachment --header 'Cache-Control: max-age=60'
      sendfilectl set lmdb:/srv/ids 7 --value '{"path":"docs/7.pdf"}'
      echo '{"path":"docs/7.pdf"}' | sendfilectl set lmdb:/srv/ids 7 -
      sendfilectl set memcached://127.0.0.1:11211 1 a.jpg --ttl 3600
      sendfilectl set 'memcached://h1*2,h2?distribution=ketama' 1 a.jpg
    """
    out = Output(json)
    url = parse_url(store)
    options = arguments.options(
        url, True, True, single_file, group, mode, ttl, connect_timeout, timeout
    )
    fields = arguments.record_fields(name, type, disposition, header or [], expires)
    batch: list[Item]
    if value is not None or (len(words) == 2 and words[1] == "-"):
        if fields:
            raise UsageError("a whole record takes no --name, --type and so on")
        if value is not None and len(words) != 1:
            raise UsageError("--value takes one ID and no path")
        raw = arguments.stdin_value() if value is None else os.fsencode(value)
        batch = [arguments.item_with_value(words[0], raw, out)]
    else:
        pairs = arguments.pairs(words)
        if fields and len(pairs) > 1:
            raise UsageError("--name, --type and so on go with one ID only")
        batch = [arguments.item_with_fields(i, path, fields) for i, path in pairs]
    outcome = Outcome(len(batch))
    out.on_interrupt(
        lambda: f"{_count(outcome.count(), 'record')} stored",
        lambda: {"stored": outcome.count()},
        failure=False,
    )
    with _opened(url, out, options) as opened, shield():
        opened.put(batch, outcome)
    stored = outcome.count()
    document: dict[str, object] = {"ok": not outcome.errors, "stored": stored}
    if outcome.errors:
        document["errors"] = [
            {"id": show(batch[i][0]), "error": str(error)}
            for i, error in sorted(outcome.errors.items())
        ]
    for i, error in sorted(outcome.errors.items()):
        out.warn(f"{show(batch[i][0])}: not stored: {error}")
    out.result(document, f"stored {_count(stored, 'record')}")
    if outcome.errors:
        raise typer.Exit(1)


@app.command()
def get(
    store: StoreArg,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", show_default=False)],
    connect_timeout: ConnectTimeoutOpt = None,
    timeout: TimeoutOpt = None,
    json: JsonOpt = False,
) -> None:
    """Print the path of each ID, or the whole record with --json.

    Values of Ruby, Python and PHP programs are decoded as nginx does; --json
    has the value itself, base64, and memcached's flags as well. Exits with 1
    if an ID is missing; the others are printed all the same.

    \b
    Examples:
      sendfilectl get lmdb:/srv/ids 297887
      sendfilectl get lmdb:/srv/ids 1 2 3 --json
      sendfilectl get memcached://127.0.0.1:11211 297887
    """
    out = Output(json)
    url = parse_url(store)
    options = arguments.options(url, connect_timeout=connect_timeout, timeout=timeout)
    wanted, missing = arguments.keys(ids, out)
    records: list[dict[str, object]] = []
    failed = bool(missing)
    with _opened(url, out, options) as opened:
        values = opened.get(wanted)
    for key, value in zip(wanted, values):
        if value is None:
            out.warn(f"{show(key)}: not found")
            missing.append(show(key))
            failed = True
            continue
        if isinstance(value, StoreError):
            out.warn(f"{show(key)}: {value}")
            records.append({"id": show(key), "error": str(value)})
            failed = True
            continue
        found, wrong = describe(key, value, decoded=True)
        if wrong is None:
            if not json:
                out.data(decode(value).path)
        else:
            out.warn(f"{show(key)}: {wrong}")
            found["error"] = wrong
            failed = True
        records.append(found)
    out.doc({"ok": not failed, "records": records, "missing": missing})
    if failed:
        raise typer.Exit(1)


@app.command("del")
def del_(
    store: StoreArg,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", show_default=False)],
    connect_timeout: ConnectTimeoutOpt = None,
    timeout: TimeoutOpt = None,
    json: JsonOpt = False,
) -> None:
    """Delete records.

    Exits with 1 if one is missing; the others are deleted all the same.

    \b
    Example:
      sendfilectl del lmdb:/srv/ids 1 2 3
    """
    out = Output(json)
    url = parse_url(store)
    options = arguments.options(
        url, write=True, connect_timeout=connect_timeout, timeout=timeout
    )
    wanted, missing = arguments.keys(ids, out)
    were: list[bool | StoreError] = []
    errors: list[dict[str, object]] = []
    out.on_interrupt(
        lambda: f"{_count(were.count(True), 'record')} deleted",
        lambda: {"deleted": were.count(True)},
        failure=False,
    )
    with _opened(url, out, options) as opened, shield():
        were = opened.delete(wanted)
    for key, was in zip(wanted, were):
        if isinstance(was, StoreError):
            out.warn(f"{show(key)}: not deleted: {was}")
            errors.append({"id": show(key), "error": str(was)})
        elif not was:
            out.warn(f"{show(key)}: not found")
            missing.append(show(key))
    deleted = were.count(True)
    ok = not missing and not errors
    document: dict[str, object] = {"ok": ok, "deleted": deleted, "missing": missing}
    if errors:
        document["errors"] = errors
    out.result(document, f"deleted {_count(deleted, 'record')}")
    if not ok:
        raise typer.Exit(1)


@app.command("import")
def import_(
    store: StoreArg,
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="- is stdin.", show_default=False)
    ],
    format: FormatOpt = None,
    dry_run: DryRunOpt = False,
    ttl: TtlOpt = None,
    single_file: SingleOpt = False,
    group: GroupOpt = None,
    mode: ModeOpt = None,
    connect_timeout: ConnectTimeoutOpt = None,
    timeout: TimeoutOpt = None,
    json: JsonOpt = False,
) -> None:
    """Store the records of a CSV, TSV or NDJSON file.

    CSV and TSV have the columns id, path and, if there is more, type, name,
    disposition, expires, headers (a JSON object), in this order or as a
    header line says. NDJSON has an object with id, path and the record's
    other fields on each line. The format follows from the extension, else
    from the first line.

    A bad line is reported with its number and passed over; the exit code is
    then 1. So is one that a memcached server does not take. Ctrl-C keeps what
    was stored and says how much that is. To replace all that a store in LMDB
    holds, see publish --from.

    \b
    Examples:
      sendfilectl import lmdb:/srv/ids files.csv
      psql -c "\\copy (select id, path from files) to stdout csv" |
          sendfilectl import lmdb:/srv/ids - --format csv
      sendfilectl import memcached://h1,h2,h3 files.csv --ttl 86400
    """
    out = Output(json)
    chosen = arguments.format_name(format)
    url = parse_url(store)
    options = arguments.options(
        url, True, True, single_file, group, mode, ttl, connect_timeout, timeout
    )
    flags = url.scheme == "memcached"
    result = Result()
    done = "would be stored" if dry_run else "stored"
    out.on_interrupt(
        lambda: (
            f"{_count(result.stored, 'record')} {done}, up to line {result.stored_line}"
        ),
        result.document,
    )
    with source(file) as src:
        if dry_run:
            load(src, chosen, _store_nothing, out, result, "checking", flags)
        else:
            with _opened(url, out, options) as opened:
                load(src, chosen, opened.put, out, result, flags=flags)
    text = f"{_count(result.stored, 'record')} {done}"
    if result.bad:
        text += f", {_count(result.bad, 'bad line')} passed over"
    if result.failed:
        text += f", {result.failed} not; all up to line {result.stored_line} are stored"
    ok = not result.bad and not result.failed
    out.result({"ok": ok, "dry_run": dry_run, **result.document()}, text)
    if not ok:
        raise typer.Exit(1)


def _store_nothing(batch: Sequence[Item], outcome: Outcome) -> None:
    """For a dry run."""
    outcome.all_stored()


@app.command("export")
def export(
    store: StoreArg,
    format: FormatOpt = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="- is stdout.")
    ] = "-",
    connect_timeout: ConnectTimeoutOpt = None,
    timeout: TimeoutOpt = None,
    json: JsonOpt = False,
) -> None:
    """Print all records, in a form that import takes.

    NDJSON unless --format or the extension of FILE says otherwise. It holds
    everything: what is not UTF-8 is in path_b64, id_b64 and value_b64. CSV
    and TSV hold any path, but no fields that nginx does not know.

    Of memcached it is all that its LRU crawler lists, in no order: a good
    copy, not a backup. The time that records have left to live is not in it.

    \b
    Examples:
      sendfilectl export lmdb:/srv/ids | head
      sendfilectl export lmdb:/srv/ids -o ids.csv
      sendfilectl export memcached://h1,h2 | sendfilectl import lmdb:/srv/ids -
    """
    out = Output(json)
    url = parse_url(store)
    options = arguments.options(url, connect_timeout=connect_timeout, timeout=timeout)
    chosen = arguments.format_name(format)
    if output != "-":
        chosen = chosen or by_extension(output)
    elif json and chosen not in (None, "ndjson"):
        raise UsageError("--json and another --format to stdout: leave one away")
    writer = Writer(chosen or "ndjson")
    with _opened(url, out, options) as opened:
        if output == "-":
            done, skipped = _export(opened, writer, sys.stdout.buffer, out)
        else:
            with _replacing(output) as file:
                done, skipped = _export(opened, writer, file, out)
            out.result(
                {"ok": not skipped, "exported": done, "skipped": skipped},
                f"exported {_count(done, 'record')}",
            )
    if skipped:
        out.warn(f"{_count(skipped, 'record')} left out")
        raise typer.Exit(1)


def _export(
    store: Store, writer: Writer, file: BinaryIO, out: Output
) -> tuple[int, int]:
    done = skipped = 0
    header = writer.header()
    if header is not None:
        file.write(header)
    # a bar among the lines on one terminal would be a mess
    shown = file is not sys.stdout.buffer or not sys.stdout.isatty()
    with (
        store.items() as found,
        out.progress("exporting", store.count(), shown=shown) as progress,
    ):
        for key, value in found:
            try:
                file.write(writer.line(key, value))
                done += 1
            except Refused as error:
                out.warn(f"{show(key)}: {error}")
                skipped += 1
            if not (done + skipped) % BATCH:
                progress(done + skipped)
    file.flush()
    return done, skipped


@contextmanager
def _replacing(path: str) -> Iterator[BinaryIO]:
    """A file that appears under its name when it is complete, not before."""
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as device:
            yield device
        return
    target = os.path.realpath(path)
    umask = os.umask(0)
    os.umask(umask)
    try:
        fd, temporary = tempfile.mkstemp(
            prefix=f".{os.path.basename(target)}.", dir=os.path.dirname(target)
        )
    except OSError as error:
        raise CtlError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), 0o666 & ~umask)
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with shield():
            os.unlink(temporary)
        raise


@app.command("scan")
def scan_(
    store: StoreArg,
    directory: Annotated[str, typer.Argument(metavar="DIR", show_default=False)],
    pattern: Annotated[
        Optional[list[str]],
        typer.Option(metavar="GLOB", help="Only names like this; repeatable."),
    ] = None,
    id_regex: Annotated[
        Optional[str],
        typer.Option(
            metavar="REGEX",
            help="Where the ID is in the relative path: the group called id, "
            "else all groups in a row, else the whole match.",
        ),
    ] = None,
    strip_zeros: Annotated[
        bool, typer.Option("--strip-zeros", help="000297 is the ID 297.")
    ] = False,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Follow symbolic links that stay below DIR."),
    ] = False,
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Take names that start with a dot.")
    ] = False,
    dry_run: DryRunOpt = False,
    ttl: TtlOpt = None,
    single_file: SingleOpt = False,
    group: GroupOpt = None,
    mode: ModeOpt = None,
    connect_timeout: ConnectTimeoutOpt = None,
    timeout: TimeoutOpt = None,
    json: JsonOpt = False,
) -> None:
    """Store the files below a directory, by the ID in their names.

    The ID is the last run of digits in a file's name without its extension:
    photo-297887.jpg has 297887. Paths are stored relative to DIR. If two
    files have one ID, both are reported and neither is stored.

    \b
    Examples:
      sendfilectl scan lmdb:/srv/ids /srv/files --pattern '*.jpg' --dry-run
      sendfilectl scan lmdb:/srv/ids /srv/files \\
          --id-regex '([0-9]{3})/([0-9]{3})/([0-9]{3})/' --strip-zeros
    """
    out = Output(json)
    url = parse_url(store)
    options = arguments.options(
        url, True, True, single_file, group, mode, ttl, connect_timeout, timeout
    )
    rules = Rules(compile_regex(id_regex), strip_zeros, pattern or (), hidden, follow)
    stored = 0
    out.on_interrupt(
        lambda: f"{_count(stored, 'file')} stored", lambda: {"stored": stored}
    )
    found = scan(directory, rules, out)
    for path, reason in found.bad:
        out.warn(f"{show(path)}: {reason}")
    total = len(found.paths)
    if total and not dry_run:
        with (
            _opened(url, out, options) as opened,
            out.progress("storing", total) as progress,
        ):
            for batch in batches(items(found), BATCH):
                outcome = Outcome(len(batch))
                with shield():
                    try:
                        opened.put(batch, outcome)
                    finally:
                        stored += outcome.count()
                for i, error in sorted(outcome.errors.items()):
                    path = found.paths[batch[i][0]]
                    found.bad.append((path, f"not stored: {error}"))
                    out.warn(f"{show(path)}: not stored: {error}")
                progress(stored)
    elif dry_run and not json:
        for key, value in items(found):
            out.data(key + b"\t" + decode(value).path)
    if not total:
        out.warn(f"{directory}: no file that can be stored")
    done = total if dry_run else stored
    text = f"{_count(done, 'file')} {'would be stored' if dry_run else 'stored'}"
    for number, what in (
        (found.no_id, "without an ID in the name"),
        (found.links, "symbolic links passed over"),
    ):
        if number:
            text += f", {number} {what}"
    ok = bool(total) and not found.bad
    out.doc(
        {
            "ok": ok,
            "dry_run": dry_run,
            "stored": done,
            "no_id": found.no_id,
            "links": found.links,
            "errors": [
                {"path": show(path), "error": reason} for path, reason in found.bad
            ],
        }
    )
    if dry_run:
        out.note(text)
    else:
        out.say(text)
    if not ok:
        raise typer.Exit(1)


@app.command()
def publish(
    store: LmdbArg,
    from_: Annotated[
        Optional[str],
        typer.Option(
            "--from",
            metavar="FILE|-",
            help="What the new store has, as import reads it; "
            "without it the current store is copied, compacted.",
        ),
    ] = None,
    format: FormatOpt = None,
    max_bad: Annotated[
        int, typer.Option(min=0, metavar="N", help="Publish in spite of N bad lines.")
    ] = 0,
    keep: Annotated[
        int, typer.Option(min=0, metavar="N", help="Keep N previous directories.")
    ] = 1,
    convert: Annotated[
        bool,
        typer.Option(
            "--convert", help="STORE is a directory so far: put a link in its place."
        ),
    ] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Publish even without a record.")
    ] = False,
    group: GroupOpt = None,
    mode: ModeOpt = None,
    json: JsonOpt = False,
) -> None:
    """Build a new store beside STORE and swap the symbolic link STORE to it.

    Readers see the old store until the new one is complete, and never a
    mixture. If anything fails the old store is untouched and nothing is left
    behind. The new directory is STORE.<time>-<pid>; the one before stays.

    \b
    Examples:
      sendfilectl publish lmdb:/srv/ids --from files.csv
      sendfilectl publish lmdb:/srv/ids              (compacts it)
      sendfilectl publish lmdb:/srv/ids --convert    (once, for a directory)
    """
    from sendfilectl.publish import Published
    from sendfilectl.publish import publish as build

    out = Output(json)
    url = parse_url(store)
    if url.scheme != "lmdb":
        raise UsageError(f"publish needs a store in LMDB, not {url.scheme}")
    chosen = arguments.format_name(format)
    permissions = arguments.permissions(group, mode) if group or mode else None
    result = Result()
    done = Published()
    out.on_interrupt(
        lambda: (
            f"published {done.directory}" if done.directory else "nothing was published"
        ),
        lambda: {**done.document(), **result.document()},
    )

    def fill(new: Store) -> None:
        with source(from_ or "-") as src:
            load(src, chosen, new.put, out, result, "building")
        if result.bad > max_bad:
            raise CtlError(
                f"{_count(result.bad, 'bad line')}: "
                f"mend them, or add --max-bad {result.bad}"
            )

    build(
        url,
        fill if from_ is not None else None,
        out,
        done,
        permissions,
        keep,
        convert,
        allow_empty,
    )
    for path in done.kept:
        out.warn(f"{path}: could not be removed")
    lines = result.document() if from_ is not None else {}
    out.result(
        {"ok": True, **done.document(), **lines},
        f"published {_count(done.records, 'record')} in {done.directory}",
    )


@app.command()
def verify(
    store: StoreArg,
    directory: Annotated[str, typer.Argument(metavar="DIR", show_default=False)],
    symlinks: Annotated[
        bool,
        typer.Option(
            "--symlinks",
            help="Accept links that stay below DIR, as http_sendfile_symlinks on.",
        ),
    ] = False,
    connect_timeout: ConnectTimeoutOpt = None,
    timeout: TimeoutOpt = None,
    json: JsonOpt = False,
) -> None:
    """Check that the file of every record is there, below DIR.

    Prints ID, path and reason, separated by tabs, of each record whose file
    nginx would not send, and exits with 1 if there is one.

    \b
    Example:
      sendfilectl verify lmdb:/srv/ids /srv/files
    """
    out = Output(json)
    url = parse_url(store)
    options = arguments.options(url, connect_timeout=connect_timeout, timeout=timeout)
    verifier = Verifier(directory, symlinks)
    checked = 0
    bad: list[dict[str, object]] = []
    with (
        _opened(url, out, options) as opened,
        opened.items() as found,
        out.progress("verifying", opened.count()) as progress,
    ):
        for key, value in found:
            checked += 1
            if not checked % BATCH:
                progress(checked)
            wrong = verifier.check(value)
            if wrong is None:
                continue
            path = verifier.path_of(value)
            bad.append({"id": show(key), "path": show(path), "error": wrong})
            if not json:
                out.data(b"\t".join((key, path, wrong.encode("utf-8"))))
    out.doc({"ok": not bad, "checked": checked, "bad": bad})
    text = f"checked {_count(checked, 'record')}, {len(bad)} bad"
    if bad:
        if not json:
            out.note(text)
        raise typer.Exit(1)
    out.say(text)


for command in (purge, stats, explain, doctor, warm, sign, bench):
    app.command()(command)
app.command("activestorage-key")(activestorage_key)
