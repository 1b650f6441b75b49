"""sign and activestorage-key: what they print, and what nobody may see."""

from __future__ import annotations

import csv
import hashlib
import hmac
import json
import os
import pty
import stat
import subprocess
import time
from pathlib import Path

import pytest
from ctl_harness import PROGRAM, invoke, run

from sendfilectl.errors import CtlError, UsageError
from sendfilectl.sign import parse_duration, parse_moment, read_key

VECTORS = Path(__file__).resolve().parents[2] / "test" / "vectors" / "signatures.tsv"
KEY = bytes(range(32)).hex()
SECRET = "a" * 64
# computed by ActiveSupport::KeyGenerator of Rails 6.1 and 7.2
FIRST_SHA1 = hashlib.pbkdf2_hmac("sha1", SECRET.encode(), b"ActiveStorage", 1000, 64)


def rows(scheme: str) -> list[dict[str, str]]:
    with VECTORS.open(encoding="utf-8") as file:
        found = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row for row in found if row["scheme"] == scheme]


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """A file with one key."""
    path = tmp_path / "keys"
    path.write_text(f"# of 2026\n\n{KEY}  # the first\n{'ff' * 32}\n")
    return path


@pytest.mark.parametrize("row", rows("hmac"), ids=lambda row: row["case"])
def test_hmac(tmp_path: Path, row: dict[str, str]) -> None:
    path = tmp_path / "keys"
    path.write_text(row["key"])
    unsigned = row["value"].partition("expires=")[0].rstrip("?&")
    more = ["--at", row["until"]] if row["until"] else []
    more += ["--address", "127.0.0.1"] if row["parameters"] else []
    code, printed, _ = invoke("sign", "--key-file", str(path), *more, unsigned)
    assert (code, printed) == (0, row["uri"] + "\n")


@pytest.mark.parametrize("row", rows("laravel"), ids=lambda row: row["case"])
def test_laravel(tmp_path: Path, row: dict[str, str]) -> None:
    path = tmp_path / "keys"
    path.write_text(row["key"])
    base = row["parameters"].removeprefix("base=")
    code, printed, error = invoke(
        "sign", "--key-file", str(path), "--scheme", "laravel", base + row["value"]
    )
    assert (code, printed) == (0, f"{base}{row['uri']}\n"), error


def test_laravel_of_the_root(key_file: Path) -> None:
    """Laravel signs https://host without a slash."""
    _, printed, _ = invoke(
        *("sign", "--key-file", str(key_file), "--scheme", "laravel"),
        "https://A.example/",
    )
    code = hmac.digest(bytes.fromhex(KEY), b"https://a.example", "sha256").hex()
    assert printed == f"https://A.example/?signature={code}\n"


@pytest.mark.parametrize("row", rows("imgproxy"), ids=lambda row: row["case"])
def test_imgproxy(tmp_path: Path, row: dict[str, str]) -> None:
    path = tmp_path / "keys"
    path.write_text(row["key"])
    code, printed, _ = invoke(
        "sign", "--key-file", str(path), "--scheme", "imgproxy", row["value"]
    )
    assert (code, printed) == (0, row["uri"] + "\n")


def test_for(key_file: Path) -> None:
    before = int(time.time())
    done = run(
        "sign", "--key-file", str(key_file), "--for", "1h", "--json", "/a", "/b?c"
    )
    after = int(time.time())
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert before + 3600 <= told["until"] <= after + 3600
    assert told["links"][0].startswith(f"/a?expires={told['until']}&signature=")
    assert told["links"][1].startswith(f"/b?c&expires={told['until']}&signature=")


def test_whole_url(key_file: Path) -> None:
    """Its scheme and host are printed, and not signed."""
    _, whole, _ = invoke("sign", "--key-file", str(key_file), "https://h:8443/a?b=1")
    _, path, _ = invoke("sign", "--key-file", str(key_file), "/a?b=1")
    assert whole == f"https://h:8443{path}"
    _, bare, _ = invoke("sign", "--key-file", str(key_file), "https://h")
    assert bare.startswith("https://h/?signature=")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "write a path"),
        ("file/1", "write a path, such as /file/1"),
        ("/a#b", "without '#'"),
        ("ftp://h/a", "write a path"),
        ("/a b", "such as %20"),
        ("/é", "percent-encoded"),
        ("/a\n", "percent-encoded"),
        ("/a?signature=x", "'signature' already"),
        ("/a?b&expires=1", "'expires' already"),
    ],
)
def test_url_that_cannot_be_signed(key_file: Path, url: str, words: str) -> None:
    code, printed, error = invoke(
        "sign", "--key-file", str(key_file), "--for", "1h", url
    )
    assert code == 1
    assert printed == ""
    assert words in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["--scheme", "md5", "/a"],
        ["--scheme", "laravel", "--address", "127.0.0.1", "/a"],
        ["--scheme", "imgproxy", "--for", "1h", "/a"],
        ["--for", "1h", "--at", "5", "/a"],
        ["--for", "1x", "/a"],
        ["--at", "tomorrow", "/a"],
        ["--at", "9" * 19, "/a"],
        ["--address", "localhost", "/a"],
        [],
    ],
)
def test_usage(key_file: Path, arguments: list[str]) -> None:
    done = run("sign", "--key-file", str(key_file), *arguments)
    assert done.returncode == 2, done.stderr


def test_address_is_written_as_nginx_has_it(key_file: Path) -> None:
    def of(address: str) -> str:
        return invoke("sign", "--key-file", str(key_file), "--address", address, "/a")[
            1
        ]

    assert of("2001:DB8:0::1") == of("2001:db8::1") != of("2001:db8::2")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no key in"),
        ("# a\n", "no key in"),
        ("\nhello", ":2: not a key in hex"),
        ("ab cd", ":1: write one key a line"),
        ("abc", ":1: not a key in hex"),
        ("ab" * 1025, ":1: too long for a key"),
    ],
)
def test_bad_key_file(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    code, _, error = invoke("sign", "--key-file", str(path), "/a")
    assert code == 1
    assert words in error
    told = error.replace(str(path), "")
    assert "hello" not in told and "abc" not in told


def test_no_key_file(tmp_path: Path) -> None:
    code, _, error = invoke("sign", "--key-file", str(tmp_path / "none"), "/a")
    assert code == 1
    assert f"{tmp_path}/none: No such file" in error


def test_key_needs_no_salt(key_file: Path) -> None:
    with pytest.raises(CtlError, match="a key and a salt"):
        read_key(str(key_file), salted=True)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("30s", 30),
        ("5m", 300),
        ("1h", 3600),
        ("7d", 604800),
        ("1y", 31536000),
    ],
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


def test_moments() -> None:
    assert parse_moment("1893456000") == 1893456000
    assert parse_moment("2030-01-01T00:00:00Z") == 1893456000
    assert parse_moment("2030-01-01") == 1893456000
    assert parse_moment("2030-01-01T01:00:00+01:00") == 1893456000
    with pytest.raises(UsageError):
        parse_moment("²")


# activestorage-key


def test_keys_of_rails(tmp_path: Path) -> None:
    """With these keys real tokens of Rails are good."""
    done = run("activestorage-key", env={**os.environ, "SECRET_KEY_BASE": SECRET})
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.partition("  # ")[2] for line in lines] == [
        "ActiveStorage, sha256",
        "ActiveStorage, sha1",
    ]
    keys = [line.split()[0] for line in lines]
    assert set(keys) == {row["key"] for row in rows("rails")}
    path = tmp_path / "keys"
    path.write_text(done.stdout)
    assert read_key(str(path), salted=False).key.hex() == keys[0]


def test_secret_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    done = run("activestorage-key", "--secret-file", str(path), "--digest", "sha1")
    assert done.stdout == f"{FIRST_SHA1.hex()}  # ActiveStorage, sha1\n"


def test_salt_of_another_verifier(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(SECRET)
    done = run(
        *("activestorage-key", "--secret-file", str(path)),
        *("--digest", "sha256", "--salt", "files"),
    )
    key = hashlib.pbkdf2_hmac("sha256", SECRET.encode(), b"files", 1000, 64)
    assert done.stdout == f"{key.hex()}  # files, sha256\n"


def test_secret_is_asked_for_and_not_shown() -> None:
    """On a terminal, without an echo."""
    master, slave = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k != "SECRET_KEY_BASE"}
    with subprocess.Popen(
        [*PROGRAM, "activestorage-key", "--digest", "sha1"],
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=slave,
        env=environment,
        start_new_session=True,
    ) as process:
        os.close(slave)
        seen = b""
        while b"secret_key_base: " not in seen:
            seen += os.read(master, 1000)
        os.write(master, SECRET.encode() + b"\n")
        assert process.stdout is not None
        printed = process.stdout.read()
        assert process.wait() == 0
    os.close(master)
    assert printed.split()[0].decode() == FIRST_SHA1.hex()
    assert SECRET.encode() not in seen


@pytest.mark.parametrize("secret", ["", None])
def test_no_secret(secret: str | None) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "SECRET_KEY_BASE"}
    if secret is not None:
        environment["SECRET_KEY_BASE"] = secret
    done = run("activestorage-key", env=environment, input="")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "secret_key_base" in done.stderr


def test_secret_is_no_argument() -> None:
    done = run("activestorage-key", SECRET)
    assert done.returncode == 2


def test_key_file_is_as_private_as_the_umask_says(tmp_path: Path) -> None:
    """As the help shows it."""
    path = tmp_path / "keys"
    subprocess.run(
        [
            "sh",
            "-c",
            f'(umask 077 && "$@" > {path})',
            "sh",
            *PROGRAM,
            "activestorage-key",
        ],
        env={**os.environ, "SECRET_KEY_BASE": SECRET},
        check=True,
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
