"""Table bigfile: how fast large files are sent, plain and over TLS."""

import subprocess
from dataclasses import replace
from pathlib import Path

from bench.contestants.nginx import Nginx
from bench.dataset import IdStore, build_equal_files, build_store
from bench.model import BenchError, Comparison
from bench.runner import Entry, Plan
from bench.tables import Setting, Table
from bench.tables.parts import (
    cache_zone,
    cached_entry,
    direct_server,
    static_entry,
    static_server,
)

SIZE = 4_200_000
FILES = 20
_ZONE = "1m"

_ABOUT = """\
Files of 4.2 MB by their IDs, the record from the cache, direct delivery, against
nginx serving the same files statically: plain HTTP, where the kernel copies
(`sendfile()`), and TLS 1.3, where nginx reads and OpenSSL encrypts. {files} files,
all in the page cache, 16 keep-alive connections, one worker with a core of its
own, wrk on the other. Here the figure is the rate: {size:,} bytes times the
requests a second. "Within noise" means: slower by no more than equal contestants
differ from each other in the middle half of the rounds. "Busy" tells whether the
worker or wrk, which has to read all that, was the limit.
"""


def table(setting: Setting) -> Table:
    """Make the table; builds files, store and certificate unless they are there.

    Args:
        setting: which nginx, where data is kept, quick or full.
    """
    setting.note(f"data: {FILES} files of {SIZE:,} bytes")
    files = build_equal_files(setting.cache, FILES, SIZE)
    store = build_store(setting.cache, files, FILES, FILES)
    certificate = make_certificate(setting.cache)
    return Table(
        name="bigfile",
        title="Files of 4.2 MB: the rate, plain and over TLS",
        about=_ABOUT.format(files=FILES, size=SIZE),
        entries=[
            *_entries(setting, store, "plain", "HTTP", None),
            *_entries(setting, store, "tls", "TLS", certificate),
        ],
        comparisons=[*_comparisons("plain", "HTTP"), *_comparisons("tls", "TLS")],
        files=[*files.all(), store.directory / "data.mdb"],
        connections=16,
        metric="rate",
        change_plan=_plan,
    )


def _plan(plan: Plan) -> Plan:
    return replace(
        plan, seconds=2 * plan.seconds, checks=min(plan.checks, 20), spot_checks=2
    )


def make_certificate(cache: Path) -> Path:
    """Return a PEM file with a key and a certificate for 127.0.0.1.

    Made by openssl unless it is there; trusted by nobody but the benchmark.

    Args:
        cache: directory that keeps it.

    Raises:
        BenchError: openssl is missing or failed.
    """
    path = cache / "certificate.pem"
    if path.exists():
        return path
    fresh = path.with_suffix(".new")
    command = [
        *("openssl", "req", "-x509", "-newkey", "ec"),
        *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650"),
        *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
        *("-keyout", str(fresh), "-out", "-"),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise BenchError("openssl is not installed") from error
    if done.returncode != 0:
        raise BenchError(f"openssl failed: {done.stderr.strip()[-500:]}")
    with fresh.open("a") as file:
        file.write(done.stdout)
    fresh.rename(path)
    return path


def _comparisons(kind: str, label: str) -> list[Comparison]:
    ours, static, again = f"ours-{kind}", f"static-{kind}", f"static-{kind}-again"
    return [
        Comparison(
            f"throughput, {label}: ours / nginx static",
            ours,
            (static,),
            1.0,
            metric="rate",
            noise=(static, again),
        ),
        Comparison(
            f"noise: throughput, {label}: static / the same again",
            static,
            (again,),
            metric="rate",
        ),
        Comparison(f"CPU per request, {label}: ours / nginx static", ours, (static,)),
        Comparison(
            f"noise: CPU per request, {label}: static / the same again",
            static,
            (again,),
        ),
    ]


def _entries(
    setting: Setting, store: IdStore, kind: str, label: str, certificate: Path | None
) -> list[Entry]:
    files = store.files
    static = [
        static_entry(
            Nginx(name, setting.nginx, static_server(files), certificate=certificate),
            files,
            title,
            role,
        )
        for name, title, role in (
            (f"static-{kind}", f"{label}: nginx static", "baseline"),
            (f"static-{kind}-again", f"{label}: the same again", "noise"),
        )
    ]
    nginx = Nginx(
        f"ours-{kind}",
        setting.nginx,
        direct_server(f"lmdb:{store.directory}", files),
        needs_module=True,
        http=cache_zone(_ZONE),
        certificate=certificate,
    )
    return [
        *static,
        cached_entry(setting, nginx, store, f"{label}: ours, record cached"),
    ]
