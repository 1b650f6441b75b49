"""Signed links, as http_sendfile_signature checks them, and keys for it.

The annotations of commands are no strings, since typer cannot read such in
Python 3.9.
"""

import base64
import getpass
import hashlib
import hmac
import ipaddress
import os
import re
import sys
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Annotated, Optional

import typer

from sendfilectl.errors import CtlError, Refused, UsageError
from sendfilectl.output import Output

SCHEMES = ("hmac", "laravel", "imgproxy")
# more than anybody's secret_key_base, or file of keys
MAX_SECRET = 65536
MAX_KEY = 1024
# of the module's own limit, a time has at most so many digits
MAX_TIME = 10**18 - 1

_URL = re.compile(r"(https?://[^/?#\s]+)?((?:/[^#]*)?)", re.IGNORECASE)
_TIME = re.compile(r"([0-9]{1,12})([smhdwy]?)")
_UNITS = {
    "": 1,
    "s": 1,
    "m": 60,
    "h": 3600,
    "d": 86400,
    "w": 7 * 86400,
    "y": 365 * 86400,
}


@dataclass(frozen=True)
class Key:
    """The first key of a file.

    Attributes:
        key: of the HMAC.
        salt: what imgproxy puts before the text, empty if there is none.
    """

    key: bytes
    salt: bytes


def read_key(path: str, salted: bool) -> Key:
    """Reads the first key of a file of keys.

    Args:
        path: of the file.
        salted: whether there is a salt behind the key.

    Raises:
        CtlError: there is none, or it cannot be read; what the file has is
            never in the message.
    """
    try:
        with open(path, "rb") as file:
            lines = file.read(MAX_SECRET).split(b"\n")
    except OSError as error:
        raise CtlError(f"{path}: {error.strerror or error}") from None
    for number, line in enumerate(lines, 1):
        words = line.partition(b"#")[0].split()
        if not words:
            continue
        where = f"{path}:{number}"
        if len(words) != (2 if salted else 1):
            what = "a key and a salt, both" if salted else "one key a line,"
            raise CtlError(f"{where}: write {what} in hex")
        try:
            key, *salt = (bytes.fromhex(word.decode("ascii")) for word in words)
        except ValueError:
            raise CtlError(f"{where}: not a key in hex") from None
        if len(key) > MAX_KEY:
            raise CtlError(f"{where}: too long for a key, {MAX_KEY} bytes are the most")
        return Key(key, b"".join(salt))
    raise CtlError(f"no key in {path}: write one a line, in hex")


def parse_duration(text: str) -> int:
    """Seconds of a time as nginx writes it: 90, 30s, 5m, 1h, 7d, 2w, 1y.

    Raises:
        UsageError: it is none.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise UsageError(f"'{text}' is no time: write 30s, 5m, 1h, 7d, 2w or 1y")
    return int(match[1]) * _UNITS[match[2]]


def parse_moment(text: str) -> int:
    """Unix seconds of a moment: such, or ISO 8601, in UTC if it says no zone.

    Raises:
        UsageError: it is none.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
    except ValueError:
        raise UsageError(
            f"'{text}' is no moment: write 2030-01-31T12:00:00Z or Unix seconds"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return int(moment.timestamp())


def split_url(url: str) -> tuple[str, str]:
    """Scheme and host of a URL, which may be empty, and what follows them.

    Raises:
        Refused: no client sends that, with what to write instead.
    """
    if not url.isascii() or re.search(r"[\x00-\x20\x7f]", url):
        raise Refused(
            "it holds a space, a control byte or one that is not ASCII: write it "
            "percent-encoded, as clients do, such as %20"
        )
    match = _URL.fullmatch(url)
    if match is None or not url:
        raise Refused("write a path, such as /file/1, or all of the URL, without '#'")
    return match[1] or "", match[2] or "/"


def _names(target: str) -> list[str]:
    return [p.partition("=")[0] for p in target.partition("?")[2].split("&")]


def sign_hmac(target: str, key: Key, address: Optional[str] = None) -> str:
    """Signs a path with its arguments, for an address or for all.

    Returns:
        The same with its signature.
    """
    text = target if address is None else f"{target}\n{address}"
    return _with(target, "signature", _base64(key, text))


def sign_laravel(base: str, target: str, key: Key) -> str:
    """Signs as Laravel does: with scheme and host if ``base`` has them.

    Returns:
        The path with its arguments and its signature.
    """
    path, mark, query = target.partition("?")
    text = f"{'' if base and path == '/' else path}{mark}{query}"
    text = f"{base}{text}".rstrip("?")
    code = hmac.digest(key.key, text.encode("ascii"), "sha256")
    return _with(target, "signature", code.hex())


def sign_imgproxy(target: str, key: Key) -> str:
    """Signs a path of imgproxy's.

    Returns:
        The path with the signature before it.
    """
    return f"/{_base64(key, target)}{target}"


def _base64(key: Key, text: str) -> str:
    code = hmac.digest(key.key, key.salt + text.encode("ascii"), "sha256")
    return base64.urlsafe_b64encode(code).decode("ascii").rstrip("=")


def _with(target: str, name: str, value: str) -> str:
    return f"{target}{'&' if '?' in target else '?'}{name}={value}"


def signed(
    url: str, scheme: str, key: Key, until: Optional[int], address: Optional[str]
) -> str:
    """Signs a URL.

    Args:
        url: or a path.
        scheme: of SCHEMES.
        key: by which.
        until: the last second at which it is good; None for ever.
        address: the only one that may use it; None for all.

    Raises:
        Refused: it cannot be signed, with what to write instead.
    """
    base, target = split_url(url)
    if scheme == "imgproxy":
        if "?" in target:
            raise Refused("imgproxy signs no arguments: leave '?' and the rest away")
        return base + sign_imgproxy(target, key)
    if "signature" in _names(target):
        raise Refused("it has an argument 'signature' already")
    if until is not None:
        if "expires" in _names(target):
            raise Refused("it has an argument 'expires' already")
        target = _with(target, "expires", str(until))
    if scheme == "laravel":
        return base + sign_laravel(base.lower(), target, key)
    return base + sign_hmac(target, key, address)


def derive(secret: bytes, salt: str, digest: str) -> bytes:
    """What Rails makes of its secret_key_base: ActiveSupport::KeyGenerator.

    Args:
        secret: as the application has it.
        salt: of the purpose; "ActiveStorage" for its URLs.
        digest: sha1 before ``load_defaults 7.0``, sha256 from then on.
    """
    return hashlib.pbkdf2_hmac(digest, secret, salt.encode(), 1000, 64)


def read_secret(path: Optional[str]) -> bytes:
    """secret_key_base: of a file, of the environment, or asked for.

    Raises:
        CtlError: there is none.
    """
    if path is not None:
        try:
            with open(path, "rb") as file:
                secret = file.read(MAX_SECRET)
        except OSError as error:
            raise CtlError(f"{path}: {error.strerror or error}") from None
        secret = secret.rstrip(b"\r\n")
    elif "SECRET_KEY_BASE" in os.environ:
        secret = os.fsencode(os.environ["SECRET_KEY_BASE"])
    elif sys.stdin.isatty():
        secret = os.fsencode(getpass.getpass("secret_key_base: "))
    else:
        raise CtlError(
            "no secret_key_base: set SECRET_KEY_BASE, or write --secret-file FILE"
        )
    if not secret:
        raise CtlError("the secret_key_base is empty")
    return secret


def _address(text: Optional[str]) -> Optional[str]:
    """An address as $remote_addr has it."""
    if text is None or text == "unix:":
        return text
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise UsageError(
            f"'{text}' is no address: write 192.0.2.1 or 2001:db8::1"
        ) from None


def _until(for_: Optional[str], at: Optional[str]) -> Optional[int]:
    if for_ is not None and at is not None:
        raise UsageError("--for and --at say the same: write one of them")
    until = None
    if for_ is not None:
        until = int(time.time()) + parse_duration(for_)
    elif at is not None:
        until = parse_moment(at)
    if until is not None and not 0 <= until <= MAX_TIME:
        raise UsageError("that moment is none that a link can end at")
    return until


def sign(
    urls: Annotated[list[str], typer.Argument(metavar="URL...", show_default=False)],
    key_file: Annotated[
        str,
        typer.Option(
            "--key-file",
            metavar="FILE",
            help="The file of http_sendfile_signature; its first key signs.",
            show_default=False,
        ),
    ],
    scheme: Annotated[
        str, typer.Option("--scheme", metavar="hmac|laravel|imgproxy")
    ] = "hmac",
    for_: Annotated[
        Optional[str],
        typer.Option("--for", metavar="TIME", help="How long: 30s, 5m, 1h, 7d."),
    ] = None,
    at: Annotated[
        Optional[str],
        typer.Option(
            "--at",
            metavar="MOMENT",
            help="Until when: 2030-01-31T12:00:00Z, or Unix seconds.",
        ),
    ] = None,
    address: Annotated[
        Optional[str],
        typer.Option(
            "--address",
            metavar="ADDRESS",
            help="The only client that may use it: hmac with the parameter address.",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document in place of text.")
    ] = False,
) -> None:
    """Sign URLs, or paths, for http_sendfile_signature.

    URL is percent-encoded, as the client will send it. Of hmac scheme and host
    are not signed, so the path alone will do; of laravel they are, if they are
    there.

    \b
    Examples:
      sendfilectl sign --key-file links.key --for 1h /file/297887
      sendfilectl sign --key-file laravel.key --scheme laravel \\
          https://www.example.com/file/297887
    """
    out = Output(json)
    if scheme not in SCHEMES:
        raise UsageError(f"unknown scheme '{scheme}': write {', '.join(SCHEMES)}")
    if address is not None and scheme != "hmac":
        raise UsageError(f"--address is for the scheme hmac, not {scheme}")
    if scheme == "imgproxy" and (for_ is not None or at is not None):
        raise UsageError("imgproxy has its time in the path: write /exp:UNIXTIME/...")
    until = _until(for_, at)
    bound = _address(address)
    key = read_key(key_file, salted=scheme == "imgproxy")
    links = []
    for url in urls:
        try:
            links.append(signed(url, scheme, key, until, bound))
        except Refused as error:
            raise CtlError(f"{url}: {error}") from None
    document: dict[str, object] = {"ok": True, "links": links}
    if until is not None:
        document["until"] = until
    out.doc(document)
    for link in links:
        out.say(link)


def activestorage_key(
    secret_file: Annotated[
        Optional[str],
        typer.Option(
            "--secret-file",
            metavar="FILE",
            help="Where secret_key_base is; else SECRET_KEY_BASE of the "
            "environment, else it is asked for.",
        ),
    ] = None,
    digest: Annotated[
        Optional[str],
        typer.Option(
            "--digest",
            metavar="sha1|sha256",
            help="What the application derives keys by: sha256 from load_defaults "
            "7.0 on, sha1 before. Without it both keys are printed.",
        ),
    ] = None,
    salt: Annotated[
        str, typer.Option("--salt", metavar="NAME", help="Of another verifier.")
    ] = "ActiveStorage",
) -> None:
    """Print the keys by which Rails signs the URLs of Active Storage.

    They are derived from secret_key_base, which is never an argument: others
    see those in the list of processes. With the keys nobody can sign a session.

    \b
    Example:
      (umask 077 && SECRET_KEY_BASE=$(cat secret) \\
          sendfilectl activestorage-key > /etc/ngx_sendfile/activestorage.key)
    """
    out = Output()
    if digest not in (None, "sha1", "sha256"):
        raise UsageError(f"unknown digest '{digest}': write sha1 or sha256")
    secret = read_secret(secret_file)
    for name in ("sha256", "sha1") if digest is None else (digest,):
        out.say(f"{derive(secret, salt, name).hex()}  # {salt}, {name}")
