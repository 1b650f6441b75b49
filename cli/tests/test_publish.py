"""publish: all or nothing, and no write lost."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest
from ctl_harness import (
    PROGRAM,
    TIMEOUT,
    Ctl,
    as_other_user,
    count,
    read_all,
    wait_until,
    write_lines,
)

from sendfilectl.errors import StoreError
from sendfilectl.output import Output
from sendfilectl.publish import Published, publish
from sendfilectl.stores import parse_url


def names(directory: Path) -> list[str]:
    """What is in a directory."""
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def site(tmp_path: Path) -> Ctl:
    """A store in a directory of its own."""
    (tmp_path / "site").mkdir()
    return Ctl(tmp_path / "site" / "ids")


def published(site: Ctl, *lines: str) -> Path:
    """Publishes some lines of CSV; the directory that they are in."""
    done = site("publish", "--from", "-", "--format", "csv", input="\n".join(lines))
    assert done.returncode == 0, done.stderr
    return site.path.resolve()


def test_first_publish(site: Ctl) -> None:
    directory = published(site, "1,a", "2,b")
    assert site.path.is_symlink()
    assert os.readlink(site.path) == directory.name
    assert names(site.path.parent) == ["ids", directory.name]
    assert names(directory) == ["data.mdb", "lock.mdb"]
    assert stat.S_IMODE(directory.stat().st_mode) == 0o755
    assert stat.S_IMODE((directory / "lock.mdb").stat().st_mode) == 0o660
    assert stat.S_IMODE((directory / "data.mdb").stat().st_mode) == 0o644
    assert site.all() == {b"1": b"a", b"2": b"b"}


def test_publish_replaces_everything_and_keeps_one(site: Ctl) -> None:
    first = published(site, "1,a")
    second = published(site, "2,b")
    assert names(site.path.parent) == ["ids", first.name, second.name]
    assert site.all() == {b"2": b"b"}
    assert read_all(first) == {b"1": b"a"}
    third = published(site, "3,c")
    assert names(site.path.parent) == ["ids", second.name, third.name]
    result = site.json("publish", "--keep", "0")
    assert names(site.path.parent) == ["ids", Path(result["directory"]).name]
    assert sorted(result["removed"]) == [str(second), str(third)]
    assert result["previous"] == str(third)


def test_publish_after_a_rollback_keeps_what_was_live(site: Ctl) -> None:
    first = published(site, "1,a")
    second = published(site, "2,b")
    site.path.unlink()
    site.path.symlink_to(first.name)
    third = published(site, "3,c")
    assert names(site.path.parent) == ["ids", first.name, third.name]
    assert not second.exists()


def test_publish_without_from_copies_and_compacts(site: Ctl) -> None:
    first = published(site, "1,a")
    many = [f"{i},{'x' * 300}" for i in range(20_000)]
    site("import", "-", input="\n".join(many))
    assert site("del", *[str(i) for i in range(1, 20_000)]).returncode == 0
    before = (first / "data.mdb").stat().st_size
    assert site("publish").returncode == 0
    assert site.path.resolve() != first
    assert site.all() == {b"0": b"x" * 300}
    assert (site.path / "data.mdb").stat().st_size < before / 100


def test_publish_file_is_packed(site: Ctl, tmp_path: Path) -> None:
    lines = [f"{i * 7919 % 50_000},{'x' * 30}" for i in range(50_000)]
    file = write_lines(tmp_path / "f.csv", lines)
    assert site("publish", "--from", str(file)).returncode == 0
    assert count(site.path) == 50_000
    assert (site.path / "data.mdb").stat().st_size < 50_000 * 60


def test_bad_lines_publish_nothing(site: Ctl) -> None:
    first = published(site, "1,a")
    done = site("publish", "--from", "-", input="2,b\n3,/c\n")
    assert done.returncode == 1
    assert "stdin:2: the path is absolute" in done.stderr
    assert "1 bad line: mend them, or add --max-bad 1" in done.stderr
    assert "nothing was published" in done.stderr
    assert names(site.path.parent) == ["ids", first.name]
    assert site.all() == {b"1": b"a"}
    done = site("publish", "--from", "-", "--max-bad", "1", input="2,b\n3,/c\n")
    assert done.returncode == 0
    assert site.all() == {b"2": b"b"}


def test_empty_input_publishes_nothing(site: Ctl) -> None:
    first = published(site, "1,a")
    done = site("publish", "--from", "-", input="")
    assert done.returncode == 1
    assert "would be empty: add --allow-empty" in done.stderr
    assert names(site.path.parent) == ["ids", first.name]
    assert site("publish", "--from", "-", "--allow-empty", input="").returncode == 0
    assert site.all() == {}


def test_file_that_is_not_there_publishes_nothing(site: Ctl) -> None:
    done = site("publish", "--from", "/no/such/file.csv")
    assert done.returncode == 1
    assert "no such file" in done.stderr
    done = site("publish")
    assert done.returncode == 1
    assert "there is no store to copy: add --from FILE" in done.stderr
    assert names(site.path.parent) == []


def test_directory_needs_convert(site: Ctl) -> None:
    site.do("set", "1", "a")
    done = site("publish", "--from", "-", input="2,b\n")
    assert done.returncode == 1
    assert "is a directory, not a symbolic link" in done.stderr
    assert "--convert" in done.stderr
    assert names(site.path.parent) == ["ids"]
    assert site.all() == {b"1": b"a"}


def test_convert_keeps_a_live_reader_right(site: Ctl) -> None:
    site.do("set", "1", "a")
    inode = (site.path / "data.mdb").stat().st_ino
    with lmdb.open(str(site.path), readonly=True) as reader:
        with reader.begin() as txn:
            assert txn.get(b"1") == b"a"
        done = site("publish", "--convert")
        assert done.returncode == 0, done.stderr
        site.do("set", "1", "new", "2", "b")
        with reader.begin() as txn:
            assert (txn.get(b"1"), txn.get(b"2")) == (b"a", None)
    assert site.path.is_symlink()
    assert site.all() == {b"1": b"new", b"2": b"b"}
    old = [p for p in site.path.parent.iterdir() if p != site.path]
    old.remove(site.path.resolve())
    assert [(p / "data.mdb").stat().st_ino for p in old] == [inode]


def test_single_file_is_refused(site: Ctl) -> None:
    site.do("set", "1", "a", "--single-file")
    for arguments in ([], ["--convert"]):
        done = site("publish", *arguments)
        assert done.returncode == 1
        assert "is a single file; publish makes directories" in done.stderr
    assert site.all() == {b"1": b"a"}


def test_dangling_link_and_damaged_store_are_replaced(site: Ctl) -> None:
    first = published(site, "1,a")
    (first / "data.mdb").write_bytes(b"not LMDB at all" * 1000)
    done = site("publish", "--from", "-", input="2,b\n")
    assert done.returncode == 0
    assert "not an LMDB file; it is replaced" in done.stderr
    assert site.all() == {b"2": b"b"}
    shutil.rmtree(site.path.resolve())
    published(site, "3,c")
    assert site.all() == {b"3": b"c"}


def test_no_room_leaves_the_old_store_and_no_debris(site: Ctl, tmp_path: Path) -> None:
    first = published(site, "1,a")
    lines = [f"{i},{'x' * 1000}" for i in range(30_000)]
    file = write_lines(tmp_path / "f.csv", lines)
    limit = 8 << 20
    done = site(
        *("publish", "--from", str(file)),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 1
    assert "is the disk full?" in done.stderr
    assert "nothing was published" in done.stderr
    assert "Traceback" not in done.stderr
    assert names(site.path.parent) == ["ids", first.name]
    assert site.all() == {b"1": b"a"}


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_signal_leaves_the_old_store_and_no_debris(
    site: Ctl, signum: signal.Signals
) -> None:
    first = published(site, "1,a")
    with site.start("publish", "--from", "-", "--format", "csv") as process:
        assert process.stdin is not None
        process.stdin.write("".join(f"{i},x\n" for i in range(15_000)))
        process.stdin.flush()
        stage = site.path.parent

        def filled() -> bool:
            found = list(stage.glob("ids.*.stage.tmp"))
            return bool(found) and count(found[0]) >= 10_000

        wait_until(filled, "a batch in the new store")
        process.send_signal(signum)
        _, said = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 128 + signum
    assert "interrupted: nothing was published" in said
    assert names(site.path.parent) == ["ids", first.name]
    assert site.all() == {b"1": b"a"}


def test_debris_of_a_killed_publish_is_cleared_away(site: Ctl) -> None:
    first = published(site, "1,a")
    with site.start("publish", "--from", "-", "--format", "csv") as process:
        wait_until(
            lambda: len(list(site.path.parent.glob("*.tmp"))) == 2, "a new store"
        )
        # another publish leaves alone what this one is working on
        second = published(site, "2,b")
        assert len(list(site.path.parent.glob("*.tmp"))) == 2
        process.kill()
        process.communicate()
    assert site.all() == {b"2": b"b"}
    third = published(site, "3,c")
    assert names(site.path.parent) == ["ids", second.name, third.name]
    assert not first.exists()


def test_other_files_are_never_removed(site: Ctl) -> None:
    first = published(site, "1,a")
    (first / "notes.txt").write_text("mine")
    beside = site.path.parent / "ids.backup"
    beside.mkdir()
    published(site, "2,b")
    done = site("publish", "--keep", "0")
    assert done.returncode == 0
    assert f"{first}: could not be removed" in done.stderr
    assert (first / "notes.txt").read_text() == "mine"
    assert beside.is_dir()


HOLDER = """
import os, sys
from sendfilectl.lmdb_store import LmdbStore
from sendfilectl.stores import Options, parse_url
store = LmdbStore(parse_url(sys.argv[1]), Options(write=True))
with store.writing():
    print("locked", flush=True)
    for line in sys.stdin:
        if line == "release\\n":
            break
        target, link = line.split()
        os.symlink(target, link + ".new")
        os.rename(link + ".new", link)
        print("swapped", flush=True)
"""


def test_write_that_waited_goes_to_the_new_store(site: Ctl, tmp_path: Path) -> None:
    old = published(site, "1,old")
    other = Ctl(tmp_path / "site" / "other")
    other.do("set", "1", "new")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, site.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with site.start("set", "2", "b") as writer:
            assert writer.stderr is not None
            assert "waiting: another program is writing" in writer.stderr.readline()
            holder.stdin.write(f"other {site.path}\n")
            holder.stdin.flush()
            assert holder.stdout.readline() == "swapped\n"
            assert writer.poll() is None
            holder.stdin.write("release\n")
            holder.stdin.flush()
            assert writer.wait(120) == 0
    assert read_all(old) == {b"1": b"old"}
    assert site.all() == {b"1": b"new", b"2": b"b"}


def test_writes_during_publishes_are_never_lost(site: Ctl) -> None:
    published(site, "0,first")
    code = (
        "import sys\n"
        "from sendfilectl.lmdb_store import LmdbStore\n"
        "from sendfilectl.stores import Options, parse_url\n"
        "store = LmdbStore(parse_url(sys.argv[1]), Options(write=True))\n"
        "n = 0\n"
        "while not sys.stdin.closed and n < 100000:\n"
        "    n += 1\n"
        "    store.put([(b'w%d' % n, b'x')])\n"
        "    if n == 1: print('started', flush=True)\n"
        "    import select\n"
        "    if select.select([sys.stdin], [], [], 0)[0]: break\n"
        "print(n, flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, site.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == "started\n"
        for _ in range(5):
            assert site("publish").returncode == 0
        writer.stdin.write("stop\n")
        writer.stdin.flush()
        written = int(writer.stdout.readline())
    expected = {b"w%d" % i: b"x" for i in range(1, written + 1)}
    assert site.all() == {**expected, b"0": b"first"}


def test_new_store_has_the_permissions_of_the_old(site: Ctl) -> None:
    directory = published(site, "1,a")
    (directory / "lock.mdb").chmod(0o660)
    (directory / "data.mdb").chmod(0o640)
    directory.chmod(0o750)
    group = os.getgid()
    if os.geteuid() == 0:
        group = 33
        for path in (directory, directory / "lock.mdb", directory / "data.mdb"):
            os.chown(path, 12345, group)
    new = published(site, "2,b")
    modes = [
        stat.S_IMODE(p.stat().st_mode)
        for p in (new, new / "data.mdb", new / "lock.mdb")
    ]
    assert modes == [0o750, 0o640, 0o660]
    assert {p.stat().st_gid for p in (new, new / "data.mdb", new / "lock.mdb")} == {
        group
    }
    assert (new / "lock.mdb").stat().st_uid == (directory / "lock.mdb").stat().st_uid
    assert site("publish", "--mode", "0600").returncode == 0
    assert stat.S_IMODE((site.path / "lock.mdb").stat().st_mode) == 0o600


def test_parent_that_cannot_be_written(public: Path) -> None:
    Ctl(public / "ids").do("set", "1", "a")
    public.chmod(0o555)

    def attempt() -> str:
        try:
            publish(
                parse_url(f"lmdb:{public}/ids"),
                None,
                Output(),
                Published(),
                convert=True,
            )
        except StoreError as error:
            return str(error)
        return "published"

    said = as_other_user(attempt)
    public.chmod(0o777)
    assert f"{public}: user" in said
    assert "has no permission to write to it" in said


def test_without_renameat2(site: Ctl) -> None:
    """Where two names cannot change places the directory is moved away first."""
    site.do("set", "1", "a")
    code = (
        "import sendfilectl.publish as p\n"
        "p._exchange = lambda one, other: False\n"
        "import sys; sys.argv[0] = 'sendfilectl'\n"
        "from sendfilectl.__main__ import main; main()\n"
    )
    command = [PROGRAM[0], "-c", code, "publish", site.url, "--convert"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert site.path.is_symlink()
    assert site.all() == {b"1": b"a"}
    assert len(names(site.path.parent)) == 3
