"""Study memory: how much memory a cached record takes."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import compiler
from bench.contestants.nginx import Nginx
from bench.cpu import settled_cpu_time
from bench.dataset import IdStore, build_files, build_store
from bench.load import ask_all
from bench.model import ContestantError
from bench.plots import Row
from bench.tables import Finding, Goal, Means, Setting
from bench.tables.parts import CACHED, PROOF_FORMAT, cache_zone, direct_server

RECORDS = 1_000_000
QUICK_RECORDS = 100_000
GOAL = 160

_FILES = 20_000
_USED = 1_000
_SEEDS = (1, 2, 3)
_SPARE = 1.01
_PAGE = 4096
_SLAB_PAGE = 24
_ZONE_HEAD = 64
_SHARD = 4 * 1024 * 1024
_SHARDS = 32

_BENCH = Path(__file__).parents[1]
_PURE = _BENCH.parent / "src" / "pure"

_ABOUT = """\
The smallest zone that keeps {records:,} records without bodies, and what of it is
beyond each record's key and value: the entry's head, the store's URL (part of
what a record is known by), the index, and what shards and pages leave unused. The
key is a number of 8 digits, the value a path of 18 bytes. The size is found with
the module's own code for shards, compiled into a small program, as the largest
for three random seeds of the hash, plus 1 %. Then nginx gets a zone of just that
size, is asked for all IDs, and once more: by its access log each of them must be
a hit.
"""


@dataclass(frozen=True)
class _Zone:
    """A zone that should be large enough.

    ``shards`` of ``shard_bytes`` each in the driver's run; ``packed`` are the
    bytes that the cache keeps as a value; ``kib`` is what nginx is given.
    """

    shards: int
    shard_bytes: int
    packed: int
    kib: int


def study(setting: Setting, means: Means) -> Finding:
    """Find the size and prove it.

    Args:
        setting: which nginx, where data is kept, quick or full.
        means: what it may use.
    """
    records = QUICK_RECORDS if setting.quick else RECORDS
    files = build_files(setting.cache, _FILES)
    store = build_store(setting.cache, files, records, _USED)
    try:
        if setting.module_missing:
            raise ContestantError("missing", setting.module_missing)
        with _short_path(store.directory) as directory:
            url = f"lmdb:{directory}"
            means.progress.note(
                f"memory: looking for the smallest zone of {records:,} records"
            )
            zone = _smallest(means.directory, store, url)
            means.progress.note(
                f"memory: {records:,} records in a zone of {zone.kib:,} KB"
            )
            lost, configuration = _lost(setting, means, store, url, zone)
    except ContestantError as error:
        means.progress.note(f"memory failed: {error}")
        return _unknown(records, str(error))
    return _finding(store, url, zone, lost, configuration)


@contextmanager
def _short_path(directory: Path) -> Iterator[Path]:
    """Make a path of usual length: it is part of each record's name."""
    short = Path(tempfile.mkdtemp(prefix="b"))
    try:
        (short / "ids").symlink_to(directory)
        yield short / "ids"
    finally:
        shutil.rmtree(short)


def _smallest(directory: Path, store: IdStore, url: str) -> _Zone:
    program = directory / "record_memory"
    sources = [_BENCH / "record_memory.c", *sorted(_PURE.glob("*.c"))]
    compiler.build(program, sources, [f"-I{_PURE}", "-lz", "-ljansson"])
    # A zone has the more shards the larger it is: start with a guess.
    shards = shards_of(store.ids * 128)
    while True:
        runs = [_run(program, store, url, shards, seed) for seed in _SEEDS]
        size = max(shard for shard, _ in runs)
        kib = zone_kib(size, shards)
        if shards_of(kib * 1024) == shards:
            return _Zone(shards, size, runs[0][1], kib)
        shards = shards_of(kib * 1024)


def _run(
    program: Path, store: IdStore, url: str, shards: int, seed: int
) -> tuple[int, int]:
    """Return the bytes of a shard and of a packed value."""
    arguments = [str(store.ids), str(shards), str(seed), f"r0{url}"]
    done = subprocess.run(
        [str(program), *arguments, store.files.path(0)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ContestantError("record_memory", done.stderr.strip()[-300:])
    size, entries, packed = map(int, done.stdout.split())
    if entries != store.ids:
        raise ContestantError("record_memory", f"it kept {entries} records")
    return size, packed


def shards_of(size: int) -> int:
    """Return how many shards a zone has: see src/cache/ngx_http_sendfile_zone.c.

    Args:
        size: of the zone, in bytes.
    """
    shards = 1
    while shards < _SHARDS and size // (shards * 2) >= _SHARD:
        shards *= 2
    return shards


def zone_kib(shard: int, shards: int) -> int:
    """Return the size of a zone for shards of a size, and 1 % more.

    nginx's slab pool keeps its head, up to two pages, and 24 bytes for each page
    (ngx_slab_init() of src/core/ngx_slab.c); the module keeps 64 bytes.

    Args:
        shard: bytes that a shard needs.
        shards: how many there are.

    Returns:
        KiB.
    """
    pages = -(-int((shard + _ZONE_HEAD) * _SPARE) // _PAGE)
    pages += 2 + -(-pages * _SLAB_PAGE // _PAGE)
    return pages * shards * _PAGE // 1024


def _lost(
    setting: Setting, means: Means, store: IdStore, url: str, zone: _Zone
) -> tuple[int, str]:
    """Fill a zone in nginx; how many IDs are no hits then, and nginx.conf."""
    nginx = Nginx(
        "memory",
        setting.nginx,
        direct_server(url, store.files),
        needs_module=True,
        http=cache_zone(f"{zone.kib}k"),
        log_format=f"$sendfile_id {PROOF_FORMAT}",
    )
    directory = means.directory / "memory"
    directory.mkdir()
    nginx.configure(directory)
    nginx.start()
    paths = [f"/file/{store.id(i)}" for i in range(store.ids)]
    try:
        for number in range(2):
            if number:
                settled_cpu_time(nginx.pids())
                nginx.begin_log()
            for _, result in ask_all(means.load, nginx.address, paths):
                if result.errors:
                    raise ContestantError("load", f"errors: {dict(result.errors)}")
    finally:
        nginx.stop()
    complaints = nginx.complaints()
    if complaints:
        raise ContestantError("its log", complaints[-1])
    return not_hit(nginx.access_log, store.ids), nginx.configuration()


def not_hit(log: Path, records: int) -> int:
    """Count the IDs that were no hit each time they were asked for.

    Args:
        log: access log with lines of ID, source and status.
        records: how many IDs there must be.
    """
    hits: set[str] = set()
    others: set[str] = set()
    with log.open() as file:
        for line in file:
            one, _, said = line.rstrip("\n").partition(" ")
            (hits if said == CACHED else others).add(one)
    return records - len(hits - others)


def _finding(
    store: IdStore, url: str, zone: _Zone, lost: int, configuration: str
) -> Finding:
    key, value = len(str(store.id(0))), len(store.files.path(0))
    total = zone.kib * 1024 / store.ids
    overhead = total - key - value
    parts = [
        ("key", key),
        ("value: the path", value),
        ("store's URL", 2 + len(url)),
        ("the rest of the overhead", overhead - 2 - len(url)),
    ]
    return Finding(
        name="memory",
        title=f"Memory of {store.ids:,} cached records",
        about=_ABOUT.format(records=store.ids),
        goals=[
            Goal(
                "overhead of a record beyond key and value, bytes",
                f"{overhead:.1f}",
                f"≤ {GOAL}",
                overhead <= GOAL and lost == 0,
            ),
            Goal(f"IDs of {store.ids:,} that were no hit", f"{lost:,}", "0", lost == 0),
            Goal("zone", f"{zone.kib:,} KB in {zone.shards} shards"),
        ],
        tables=[
            (
                ["of a record", "bytes"],
                [
                    *([name, f"{size:.1f}"] for name, size in parts),
                    ["all: the zone divided by the records", f"{total:.1f}"],
                ],
            )
        ],
        bars=[Row(name, "ours", size) for name, size in parts],
        axis="bytes of a record",
        line=None,
        data={
            "records": store.ids,
            "zone_kib": zone.kib,
            "shards": zone.shards,
            "shard_bytes": zone.shard_bytes,
            "packed_value_bytes": zone.packed,
            "overhead_bytes": overhead,
            "lost": lost,
        },
        files={"memory.conf": configuration},
        complete=lost == 0,
    )


def _unknown(records: int, reason: str) -> Finding:
    return Finding(
        name="memory",
        title=f"Memory of {records:,} cached records",
        about=_ABOUT.format(records=records),
        goals=[
            Goal("overhead of a record beyond key and value", "–", f"≤ {GOAL} bytes")
        ],
        tables=[],
        bars=[],
        axis="",
        line=None,
        data={},
        files={},
        notes=[f"**Not measured:** {reason}"],
        complete=False,
    )
