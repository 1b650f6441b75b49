"""Permissions, damaged files, killed writers, and readers beside us."""

from __future__ import annotations

import contextlib
import ctypes.util
import json
import os
import re
import resource
import signal
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from ctl_harness import Ctl, as_other_user, count, start, wait_until, write_lines

from sendfilectl.errors import StoreError
from sendfilectl.lmdb_store import LmdbStore
from sendfilectl.stores import Options, Permissions, parse_url


def mode(path: Path) -> int:
    """The permission bits of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def test_new_store_can_be_read_by_the_workers(ctl: Ctl) -> None:
    umask = os.umask(0o077)
    try:
        assert ctl("set", "1", "a").returncode == 0
    finally:
        os.umask(umask)
    assert mode(ctl.path) == 0o755
    assert mode(ctl.path / "data.mdb") == 0o644
    assert mode(ctl.path / "lock.mdb") == 0o660


def test_group_and_mode(ctl: Ctl) -> None:
    group = 33 if os.geteuid() == 0 else os.getgid()
    assert ctl("set", "1", "a", "--group", str(group)).returncode == 0
    assert mode(ctl.path) == 0o750
    assert mode(ctl.path / "data.mdb") == 0o640
    assert mode(ctl.path / "lock.mdb") == 0o660
    assert {p.stat().st_gid for p in (ctl.path, *ctl.path.iterdir())} == {group}
    # a store that exists is left as it is, unless told otherwise
    assert ctl("set", "2", "b").returncode == 0
    assert mode(ctl.path / "lock.mdb") == 0o660
    assert ctl("set", "3", "c", "--mode", "666").returncode == 0
    assert mode(ctl.path / "lock.mdb") == 0o666
    assert mode(ctl.path / "data.mdb") == 0o644


def test_lock_file_that_was_removed_is_made_anew(ctl: Ctl) -> None:
    ctl.do("set", "1", "a")
    for command in (["get", "1"], ["set", "2", "b"]):
        (ctl.path / "lock.mdb").unlink()
        assert ctl(*command).returncode == 0
        assert mode(ctl.path / "lock.mdb") == 0o660


def attempt(path: Path, write: bool) -> str:
    """Opens a store without privileges and reads the ID 1, or says why not."""

    def read() -> str:
        try:
            url = parse_url(f"lmdb:{path}")
            store = LmdbStore(url, Options(write=write, create=write))
        except StoreError as error:
            return str(error)
        value = store.get([b"1"])[0]
        store.close()
        return repr(value)

    return as_other_user(read)


def test_other_user_reads_a_new_store(public: Path) -> None:
    Ctl(public / "ids").do("set", "1", "a")
    said = attempt(public / "ids", write=False)
    assert "no permission to write the lock file" in said
    Ctl(public / "ids").do("set", "1", "a", "--mode", "666")
    assert attempt(public / "ids", write=False) == "b'a'"


def test_lock_file_that_cannot_be_written(public: Path) -> None:
    Ctl(public / "ids").do("set", "1", "a")
    (public / "ids" / "lock.mdb").chmod(0o444)
    said = attempt(public / "ids", write=False)
    assert said.startswith(f"{public}/ids/lock.mdb: user ")
    assert "no permission to write the lock file" in said


def test_data_file_that_cannot_be_written_or_read(public: Path) -> None:
    Ctl(public / "ids").do("set", "1", "a")
    data = public / "ids" / "data.mdb"
    data.chmod(0o444)
    (public / "ids" / "lock.mdb").chmod(0o666)
    assert attempt(public / "ids", write=False) == "b'a'"
    assert "data.mdb: user" in attempt(public / "ids", write=True)
    data.chmod(0o000)
    assert "no permission to read the data file" in attempt(public / "ids", write=False)


def test_directory_that_cannot_be_entered_or_written(public: Path) -> None:
    (public / "closed").mkdir()
    Ctl(public / "closed" / "ids").do("set", "1", "a")
    (public / "closed").chmod(0o000)
    said = attempt(public / "closed" / "ids", write=False)
    (public / "closed").chmod(0o555)
    assert f"no permission to enter {public}/closed" in said
    said = attempt(public / "closed" / "new", write=True)
    (public / "closed").chmod(0o755)
    assert f"no permission to write to {public}/closed" in said


def test_parent_that_is_not_there(tmp_path: Path) -> None:
    done = Ctl(tmp_path / "a" / "b")("set", "1", "x")
    assert done.returncode == 1
    assert f"make it first: mkdir -p {tmp_path}/a" in done.stderr


def test_directory_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    done = Ctl(tmp_path)("set", "1", "x")
    assert done.returncode == 1
    assert "has other files (mine)" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


def test_empty_directory_is_taken(ctl: Ctl) -> None:
    ctl.path.mkdir()
    assert ctl("set", "1", "a").returncode == 0
    assert ctl.all() == {b"1": b"a"}


def test_files_that_are_no_store(ctl: Ctl) -> None:
    ctl.do("set", "1", "a")
    data = ctl.path / "data.mdb"
    good = data.read_bytes()
    newer = bytearray(good)
    offset = good.index(struct.pack("=I", 0xBEEFC0DE))
    newer[offset + 4 : offset + 8] = struct.pack("=I", 3)
    for content, reason in (
        (b"hello" * 5000, "not an LMDB file"),
        (b"x", "not an LMDB file"),
        (b"", "is empty, no LMDB file"),
        (bytes(newer), "an LMDB file of format 3; nginx reads format 1"),
        (good[:4096], "not an LMDB file"),
        (good[:8192], "is damaged, it has 8192 bytes of 12288"),
    ):
        data.write_bytes(content)
        done = ctl("get", "1")
        assert done.returncode == 1
        assert f"{data}: {reason}" in done.stderr
        assert "Traceback" not in done.stderr


def test_file_that_was_cut_off(ctl: Ctl) -> None:
    ctl("import", "-", input="".join(f"{i},{'x' * 200}\n" for i in range(20_000)))
    data = ctl.path / "data.mdb"
    os.truncate(data, data.stat().st_size // 2)
    for command in (["get", "1"], ["set", "1", "a"], ["export"]):
        done = ctl(*command)
        assert done.returncode == 1, command
        assert "is damaged, it has" in done.stderr


def test_lock_file_has_its_blocks(ctl: Ctl) -> None:
    """A hole in it would be a SIGBUS for us and for nginx on a full disk."""
    ctl.do("set", "1", "a")
    found = (ctl.path / "lock.mdb").stat()
    assert found.st_blocks * 512 >= found.st_size > 64 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(command, check=False).returncode != 0:
        pytest.fail("a file system cannot be mounted here")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def test_full_disk(small_disk: Path) -> None:
    ctl = Ctl(small_disk / "ids")
    ctl.do("set", "1", "a")
    room = small_disk / "room"
    with contextlib.suppress(OSError), room.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    for command in (["set", "2", "b" * 4000], ["publish", "--convert"]):
        done = ctl(*command)
        assert done.returncode == 1, done
        assert "the disk" in done.stderr or "no space" in done.stderr
        assert sorted(p.name for p in small_disk.iterdir()) == ["ids", "room"]
    other = Ctl(small_disk / "other")
    assert other("set", "1", "a").returncode == 1
    assert not other.path.exists()
    assert ctl.all() == {b"1": b"a"}
    room.unlink()
    assert ctl("publish", "--convert").returncode == 0
    assert ctl.all() == {b"1": b"a"}


def test_little_address_space(ctl: Ctl) -> None:
    limit = 4 << 30

    def restrict() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    assert ctl("set", "1", "a", preexec_fn=restrict).returncode == 0
    assert ctl("set", "2", "b").returncode == 0
    # the file now says 64 GiB, which is more than the reader may have
    assert ctl("get", "1", "2", preexec_fn=restrict).stdout == "a\nb\n"


def test_one_environment_once_in_a_process(ctl: Ctl, tmp_path: Path) -> None:
    ctl.do("set", "1", "a")
    (tmp_path / "link").symlink_to("ids")
    store = LmdbStore(parse_url(ctl.url), Options())
    with pytest.raises(StoreError, match="already open in this process"):
        LmdbStore(parse_url(f"lmdb:{tmp_path}/link"), Options(write=True))
    assert store.get([b"1"]) == [b"a"]
    store.close()
    again = LmdbStore(parse_url(ctl.url), Options())
    assert again.get([b"1"]) == [b"a"]
    again.close()


def test_store_that_disappears_is_not_made_anew(ctl: Ctl, tmp_path: Path) -> None:
    options = Options(write=True, create=True, permissions=Permissions())
    store = LmdbStore(parse_url(ctl.url), options)
    store.put([(b"1", b"a")])
    ctl.path.rename(tmp_path / "away")
    with pytest.raises(StoreError, match="there is no store"):
        store.put([(b"2", b"b")])
    assert not ctl.path.exists()


WRITER = """
import sys
from sendfilectl.lmdb_store import LmdbStore
from sendfilectl.stores import Options, parse_url
store = LmdbStore(parse_url(sys.argv[1]), Options(write=True), map_size=1 << 24)
{}
print("ready", flush=True)
for line in sys.stdin:
    store.put([(line.strip().encode(), b"x" * 100)])
    print("stored", flush=True)
"""


def helper(code: str, url: str) -> subprocess.Popen[str]:
    """Another process with the store open."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def tell(process: subprocess.Popen[str], line: str) -> str:
    """Sends a line to a process and returns its answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def test_writer_takes_the_larger_map_of_another(ctl: Ctl) -> None:
    ctl.do("set", "1", "a")
    with helper(WRITER.format(""), ctl.url) as writer:
        lines = "".join(f"{i},{'x' * 2000}\n" for i in range(15_000))
        assert ctl("import", "-", input=lines).returncode == 0
        assert (ctl.path / "data.mdb").stat().st_size > 1 << 24
        assert tell(writer, "late") == "stored"
        assert writer.stdin is not None
        writer.stdin.close()
    assert len(ctl.all()) == 15_001


def test_killed_with_the_write_lock_held(ctl: Ctl) -> None:
    ctl.do("set", "1", "a")
    holding = "txn = store._env.begin(write=True); txn.put(b'2', b'lost')"
    with helper(WRITER.format(holding), ctl.url) as holder:
        holder.kill()
        holder.wait()
    assert ctl("set", "3", "c").returncode == 0
    assert ctl.all() == {b"1": b"a", b"3": b"c"}


def test_import_killed_at_any_time(ctl: Ctl, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "f.csv", [f"{i},p/{i}" for i in range(200_000)])

    def stored(least: int) -> bool:
        return count(ctl.path) >= least

    for least in (10_000, 30_000, 60_000):
        with start("import", ctl.url, str(file)) as process:
            wait_until(partial(stored, least), "some batches")
            process.kill()
            process.communicate()
        found = ctl.all()
        assert len(found) % 10_000 == 0
        assert found == {b"%d" % i: b"p/%d" % i for i in range(len(found))}
    assert ctl("import", str(file)).returncode == 0
    assert count(ctl.path) == 200_000


def test_signal_while_waiting_for_another_writer(ctl: Ctl) -> None:
    ctl.do("set", "1", "a")
    holding = "txn = store._env.begin(write=True)"
    with helper(WRITER.format(holding), ctl.url) as holder:
        with ctl.start("set", "2", "b") as process:
            assert process.stderr is not None
            assert "waiting: another program is writing" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 130
            assert "interrupted: 0 records stored" in process.stderr.read()
        holder.kill()
    assert ctl.all() == {b"1": b"a"}


HOLDER = {
    "byte": "fcntl.lockf(file, fcntl.LOCK_EX, 1)",
    # with a share of the byte, or the next one to come makes a new mutex
    "mutex": """
fcntl.lockf(file, fcntl.LOCK_SH, 1)
table = mmap.mmap(file.fileno(), 0)
mutex = ctypes.addressof(ctypes.c_char.from_buffer(table)) + 8
assert ctypes.CDLL(None).pthread_mutex_lock(ctypes.c_void_p(mutex)) == 0
""",
}


def holder_code(kind: str) -> str:
    """A program that holds a lock of a store's until its stdin is closed."""
    return f"""
import ctypes, fcntl, mmap, sys
file = open(sys.argv[1].split(":", 1)[1] + "/lock.mdb", "r+b")
{HOLDER[kind]}
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("kind", HOLDER)
@pytest.mark.parametrize("command", [["get", "1"], ["set", "2", "b"]])
def test_lock_that_another_holds_for_ever(
    ctl: Ctl, kind: str, command: list[str]
) -> None:
    """An error after some seconds, and no waiting for ever."""
    if (kind, command[0]) == ("mutex", "set"):
        # a writer takes no slot of a reader
        command = ["export"]
    ctl.do("set", "1", "a")
    with helper(holder_code(kind), ctl.url) as holder:
        done = ctl(*command)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert "Timeout" not in done.stderr
        if kind == "mutex":
            (line,) = done.stderr.splitlines()
            assert re.fullmatch(
                f"sendfilectl: {ctl.path}/lock.mdb: another program has the lock of the "
                f"readers of {ctl.path}, for 1[01] seconds: .* open \\(fuser\\)",
                line,
            )
        else:
            assert "waiting: another program has a lock of" in done.stderr
            assert f"{ctl.path}/lock.mdb: another program has a lock" in done.stderr
        holder.kill()


@pytest.mark.parametrize("kind", HOLDER)
def test_lock_that_another_holds_is_in_the_json(ctl: Ctl, kind: str) -> None:
    ctl.do("set", "1", "a")
    with helper(holder_code(kind), ctl.url) as holder:
        done = ctl("get", "1", "--json")
        holder.kill()
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["ok"] is False
    assert found["error"].startswith(f"{ctl.path}/lock.mdb: another program has ")


READER = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[2])
class Val(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("data", ctypes.c_void_p)]
def check(code):
    if code:
        lib.mdb_strerror.restype = ctypes.c_char_p
        print(lib.mdb_strerror(code).decode(), flush=True)
        sys.exit(1)
path = sys.argv[1].split(":", 1)[1].encode()
env, txn, dbi = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint()
check(lib.mdb_env_create(ctypes.byref(env)))
RDONLY_NOTLS_NORDAHEAD = 0x20000 | 0x200000 | 0x800000
check(lib.mdb_env_open(env, path, RDONLY_NOTLS_NORDAHEAD, 0o644))
check(lib.mdb_txn_begin(env, None, 0x20000, ctypes.byref(txn)))
check(lib.mdb_dbi_open(txn, None, 0, ctypes.byref(dbi)))
lib.mdb_txn_reset(txn)
print("ready", flush=True)
held = False
for line in sys.stdin:
    word = line.strip().encode()
    if word == b"hold":
        check(lib.mdb_txn_renew(txn)); held = True
        print("held", flush=True); continue
    if not held:
        check(lib.mdb_txn_renew(txn))
    key, value = Val(len(word), ctypes.cast(word, ctypes.c_void_p)), Val()
    code = lib.mdb_get(txn, dbi, ctypes.byref(key), ctypes.byref(value))
    text = ctypes.string_at(value.data, value.size).decode() if code == 0 else "none"
    if not held:
        lib.mdb_txn_reset(txn)
    print(text, flush=True)
"""


def reader(url: str) -> subprocess.Popen[str]:
    """A process that reads with the system's liblmdb, as nginx does."""
    library = ctypes.util.find_library("lmdb")
    if library is None:
        pytest.fail("there is no liblmdb on this system")
    process = subprocess.Popen(
        [sys.executable, "-c", READER, url, library],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_system_liblmdb_reads_beside_us(ctl: Ctl) -> None:
    ctl.do("set", "1", "a")
    with reader(ctl.url) as process:
        assert tell(process, "1") == "a"
        ctl.do("set", "1", "b", "2", "c")
        assert (tell(process, "1"), tell(process, "2")) == ("b", "c")
        ctl("del", "2")
        assert tell(process, "2") == "none"
        lines = "".join(f"{i},{'x' * 500}\n" for i in range(10, 20_000))
        ctl("import", "-", input=lines)
        assert tell(process, "19999") == "x" * 500
        assert process.stdin is not None
        process.stdin.close()


def test_reader_keeps_its_snapshot_during_writes(ctl: Ctl) -> None:
    ctl.do("set", *(word for i in range(500) for word in (str(i), f"old/{i}")))
    with reader(ctl.url) as process:
        assert tell(process, "hold") == "held"
        for n in range(5):
            lines = "".join(f"{i},new/{n}/{i}\n" for i in range(500))
            ctl("import", "-", input=lines)
        assert [tell(process, str(i)) for i in range(500)] == [
            f"old/{i}" for i in range(500)
        ]
        assert process.stdin is not None
        process.stdin.close()
    assert ctl("get", "7").stdout == "new/4/7\n"
