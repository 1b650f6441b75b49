"""scan and verify."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ctl_harness import Ctl

from sendfilectl.errors import UsageError
from sendfilectl.scan import Rules, compile_regex, id_of


def tree(root: Path, *names: str | bytes) -> Path:
    """Makes files, each with its own name in it."""
    for name in names:
        path = os.path.join(os.fsencode(root), os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(os.fsencode(name))
    return root


@pytest.mark.parametrize(
    ("path", "id"),
    [
        (b"photo-297887.jpg", b"297887"),
        (b"2024/photo-5.jpg", b"5"),
        (b"12.mp3", b"12"),
        (b"a1b2c3.x", b"3"),
        (b"0007.jpg", b"0007"),
        (b"9/none.jpg", None),
        (b"a.mp4", None),
        (b"123456789012345678901.x", None),
        (b"12345678901234567890.x", b"12345678901234567890"),
    ],
)
def test_default_id(path: bytes, id: bytes | None) -> None:
    assert id_of(path, Rules()) == id


def test_id_by_regex() -> None:
    path = b"000/297/887/original.jpg"
    thrice = compile_regex(r"(\d{3})/(\d{3})/(\d{3})/")
    assert id_of(path, Rules(thrice)) == b"000297887"
    assert id_of(path, Rules(thrice, strip_zeros=True)) == b"297887"
    assert id_of(path, Rules(compile_regex(r"(x)?(?P<id>\w+)\.jpg"))) == b"original"
    assert id_of(path, Rules(compile_regex(r"887"))) == b"887"
    assert id_of(path, Rules(compile_regex(r"nothing"))) is None
    assert id_of(b"000.jpg", Rules(strip_zeros=True)) == b"0"
    with pytest.raises(UsageError, match="--id-regex"):
        compile_regex("(")


def test_scan(ctl: Ctl, tmp_path: Path) -> None:
    root = tree(
        tmp_path / "files",
        *("1.jpg", "a/2.jpg", "a/b/photo 3 \xe9.png", "a/readme.txt", b"\xff4"),
        *(".5.jpg", ".git/6"),
    )
    result = ctl.json("scan", str(root))
    assert result == {
        "ok": True,
        "dry_run": False,
        "stored": 4,
        "no_id": 1,
        "links": 0,
        "errors": [],
    }
    assert ctl.all() == {
        b"1": b"1.jpg",
        b"2": b"a/2.jpg",
        b"3": "a/b/photo 3 \xe9.png".encode(),
        b"4": b"\xff4",
    }
    assert ctl("scan", str(root), "--hidden").returncode == 0
    assert ctl.all()[b"6"] == b".git/6"


def test_scan_two_files_with_one_id(ctl: Ctl, tmp_path: Path) -> None:
    root = tree(tmp_path / "files", "1.jpg", "a/1.png", "b/1.gif", "2.jpg")
    done = ctl("scan", str(root))
    assert done.returncode == 1
    assert "ID 1 is of '1.jpg' and 'a/1.png' and 'b/1.gif'" in done.stderr
    assert ctl.all() == {b"2": b"2.jpg"}
    assert (
        ctl("scan", str(root), "--pattern", "*.jpg", "--pattern", "x*").returncode == 0
    )
    assert ctl.all() == {b"1": b"1.jpg", b"2": b"2.jpg"}


def test_scan_dry_run(ctl: Ctl, tmp_path: Path) -> None:
    root = tree(tmp_path / "files", "1.jpg", "a/2.jpg")
    done = ctl("scan", str(root), "--dry-run")
    assert (done.returncode, done.stdout) == (0, "1\t1.jpg\n2\ta/2.jpg\n")
    assert "2 files would be stored" in done.stderr
    assert not ctl.path.exists()


def test_scan_links(ctl: Ctl, tmp_path: Path) -> None:
    root = tree(tmp_path / "files", "1.jpg", "a/2.jpg")
    tree(tmp_path / "outside", "8.jpg")
    (root / "3.jpg").symlink_to("1.jpg")
    (root / "9").symlink_to(tmp_path / "outside")
    (root / "10.jpg").symlink_to(tmp_path / "outside" / "8.jpg")
    (root / "a" / "loop").symlink_to("..")
    result = ctl.json("scan", str(root))
    assert (result["stored"], result["links"]) == (2, 4)
    assert ctl.all() == {b"1": b"1.jpg", b"2": b"a/2.jpg"}
    assert ctl("scan", str(root), "--follow").returncode == 0
    assert ctl.all() == {b"1": b"1.jpg", b"2": b"a/2.jpg", b"3": b"3.jpg"}


def test_scan_passes_over_what_is_no_file(ctl: Ctl, tmp_path: Path) -> None:
    root = tree(tmp_path / "files", "1.jpg", b"2\n.jpg")
    os.mkfifo(root / "3")
    done = ctl("scan", str(root))
    assert done.returncode == 1
    assert "2\\n.jpg: the path holds the control byte 0x0a" in done.stderr
    assert ctl.all() == {b"1": b"1.jpg"}


def test_scan_of_nothing(ctl: Ctl, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    done = ctl("scan", str(tmp_path / "files"))
    assert done.returncode == 1
    assert "no file that can be stored" in done.stderr
    done = ctl("scan", str(tmp_path / "none"))
    assert done.returncode == 1
    assert "no such directory" in done.stderr
    assert not ctl.path.exists()


def test_verify(ctl: Ctl, tmp_path: Path) -> None:
    root = tree(tmp_path / "files", "1.jpg", "a/2.jpg")
    tree(tmp_path / "outside", "secret")
    (root / "link.jpg").symlink_to("1.jpg")
    (root / "dir").symlink_to("a")
    (root / "out").symlink_to(tmp_path / "outside")
    assert ctl("scan", str(root)).returncode == 0
    done = ctl("verify", str(root))
    assert (done.returncode, done.stdout) == (0, "checked 2 records, 0 bad\n")
    ctl(
        "set",
        *("3", "gone.jpg", "4", "a", "5", "link.jpg"),
        *("6", "dir/2.jpg", "7", "out/secret", "8", "1.jpg/x"),
    )
    done = ctl("verify", str(root))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "3\tgone.jpg\tno such file or directory",
        "4\ta\tnot a regular file",
        "5\tlink.jpg\thas a symbolic link in its path",
        "6\tdir/2.jpg\thas a symbolic link in its path",
        "7\tout/secret\ta symbolic link leads out of the directory",
        "8\t1.jpg/x\tnot a directory",
    ]
    bad = ctl.json("verify", str(root), "--symlinks", code=1)
    assert bad["checked"] == 8
    assert [b["id"] for b in bad["bad"]] == ["3", "4", "7", "8"]
