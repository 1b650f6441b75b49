"""Who may have the files: what a configuration says by mistake."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from sendfilectl.doctor.config import Directive
from sendfilectl.doctor.finding import Patient
from sendfilectl.doctor.levels import Level, directory, everything, match

# a location by a regular expression takes files by their endings
_NAMES = ("0", "0.jpg", "0.png", "0.pdf", "0.mp4", "0.zip", "0.html", "0.css", "0.js")

# of whom a request is; not by Authorization, with which nothing is learned unless
# the application says "public"
_PERSONAL = re.compile("(jwt_|ssl_client_)")
_VARIABLE = re.compile(r"\$\{?(\w+)")

_LOCAL = re.compile(r"(127\.[0-9.]+|\[::1\]|localhost)(:[0-9]+)?$|unix:")


def check_prefix(patient: Patient, servers: list[Level]) -> None:
    """The location that http_sendfile_prefix leads to: internal, and taken by it."""
    for level in everything(servers):
        if not level.sendfile or _root_or_prefix(level, "http_sendfile_root"):
            continue
        found = _root_or_prefix(level, "http_sendfile_prefix")
        prefix = found.arg() if found is not None else "/files/"
        if "$" in prefix:
            continue
        assert level.server is not None
        uri = f"{prefix.rstrip('/')}/"
        target = match(level.server, f"{uri}0")
        where = found or level.one("http_sendfile")
        if target.is_location and not target.internal:
            patient.find(
                "error",
                "internal",
                f'anybody may ask for the files below "{prefix}" by their names, for '
                f'"location {" ".join(target.block.args)}" is not internal',
                f'write "internal;" into a "location ^~ {uri}" of its own',
                where if target.uri == "/" else target.block,
            )
        elif not target.is_location:
            patient.find(
                "error",
                "internal",
                f'there is no location for the files below "{prefix}"',
                f'write "location ^~ {uri} {{ internal; alias /srv/files/; }}"',
                where,
            )
        elif target.modifier == "" and any(
            one.is_regex for one in level.server.locations
        ):
            patient.find(
                "warning",
                "internal",
                f'a location by a regular expression may take "{prefix}" away from '
                f'"location {target.uri}"',
                f'write "location ^~ {target.uri}"',
                target.block,
            )


def _root_or_prefix(level: Level, name: str) -> Directive | None:
    """That of the two which holds, if it is this one."""
    found = level.nearest("http_sendfile_root", "http_sendfile_prefix")
    if found is None or found.name != name or found.arg() == "off":
        return None
    return found


def file_roots(patient: Patient, servers: list[Level]) -> Iterator[tuple[str, Level]]:
    """The directories that files are sent from, each with a level that says so."""
    for level in everything(servers):
        if level.value("http_sendfile_accept", "off") != "off":
            for allowed in level.all("http_sendfile_allow"):
                yield allowed.arg(), level
        if not level.sendfile:
            continue
        found = _root_or_prefix(level, "http_sendfile_root")
        if found is not None:
            yield found.arg(), level
            continue
        found = _root_or_prefix(level, "http_sendfile_prefix")
        prefix = found.arg() if found is not None else "/files/"
        if "$" in prefix:
            continue
        assert level.server is not None
        uri = f"{prefix.rstrip('/')}/"
        target = match(level.server, f"{uri}0")
        place = directory(target, patient.prefix)
        if place is not None and not target.handled:
            path, base = place
            yield os.path.normpath(f"{path}/{uri[len(base) :]}"), target


def check_shadow(patient: Patient, servers: list[Level]) -> None:
    """Files that another location gives to anybody who knows their names."""
    roots: dict[str, list[Level]] = {}
    for path, level in file_roots(patient, servers):
        if "$" not in path:
            roots.setdefault(path, []).append(level)
    for level in everything(servers):
        if level.internal or level.handled or level.guarded:
            continue
        place = directory(level, patient.prefix)
        if place is None:
            continue
        for root in sorted(roots):
            # that the prefix's own location is not internal is said already
            uri = None if level in roots[root] else _reaches(level, *place, root)
            if uri is not None:
                name = (
                    f'"location {" ".join(level.block.args)}"'
                    if level.is_location
                    else "this server"
                )
                patient.find(
                    "error",
                    "public",
                    f"anybody may ask for the files of {root} by their names, such as "
                    f"{uri}, for {name} serves {place[0]}",
                    "keep them in a directory that no other location serves, or write "
                    f'"location ^~ {os.path.dirname(uri)}/ {{ internal; }}"',
                    level.block,
                )


def _reaches(level: Level, path: str, base: str, root: str) -> str | None:
    """A URI by which this very level gives out a file below a root."""
    assert level.server is not None
    path, root = os.path.realpath(path), os.path.realpath(root)
    starts = []
    if _within(root, path):
        starts.append(f"{base.rstrip('/')}/{os.path.relpath(root, path)}")
    # the other way round: a part of the files
    own = base if level.is_regex or not level.is_location else level.uri
    below = os.path.realpath(f"{path}/{own[len(base) :]}")
    if below != root and _within(below, root):
        starts.append(own)
    for start in starts:
        clean = os.path.normpath(start).rstrip("/").replace("//", "/")
        for name in _NAMES:
            if match(level.server, f"{clean}/{name}") is level:
                return f"{clean}/{name}"
    return None


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def check_learn(patient: Patient, servers: list[Level]) -> None:
    """Learned answers of an application that may know its users.

    What the application decides by cannot be seen. What can: whether it is told who
    asks, and whether nginx would hear that it forbids to learn.
    """
    for level in everything(servers):
        passing = level.passes
        if passing is None or level.value("http_sendfile_learn") != "on":
            continue
        learn = level.one("http_sendfile_learn")
        key = level.value("http_sendfile_learn_key", "$scheme://$http_host$request_uri")
        kind = passing.name.removesuffix("_pass")
        known = set(_VARIABLE.findall(key))
        ignored = level.one(f"{kind}_ignore_headers")
        for name in ("Cache-Control", "X-Accel-Expires"):
            if ignored is not None and name in ignored.args:
                patient.find(
                    "warning",
                    "learn",
                    f'answers are learned, and "{name}", by which the application '
                    "forbids it, is ignored",
                    f'take {name} out of "{ignored.name}", or write '
                    '"http_sendfile_learn off;"',
                    ignored,
                )
        told = _told(level, kind)
        personal = {name for name in told if name not in known}
        if personal:
            one = min(personal)
            patient.find(
                "warning",
                "learn",
                f"the application is told ${one}, and what is learned of its answer "
                "for one is given to all",
                f'write "http_sendfile_learn_key {key}${one};", or let auth_request '
                "say who may have a file",
                told[one],
            )
        elif not level.guarded and not _without_cookies(level, kind, known):
            patient.find(
                "note",
                "learn",
                "the application sees who asks by the cookie, nginx does not: what is "
                "learned is given to all who know the URL",
                "if files are not for all, let auth_request ask first, or the "
                'application say "Cache-Control: no-store"; if they are, write '
                + (
                    'proxy_set_header Cookie "";'
                    if kind == "proxy"
                    else f'{kind}_param HTTP_COOKIE "";'
                ),
                learn,
            )


def _told(level: Level, kind: str) -> dict[str, Directive]:
    """Variables that say who asks, and what tells the application of them."""
    set_by_guard = {found.arg().lstrip("$") for found in level.all("auth_request_set")}
    names = {"proxy": "proxy_set_header", "grpc": "grpc_set_header"}
    found: dict[str, Directive] = {}
    for one in level.all(names.get(kind, f"{kind}_param")):
        for name in _VARIABLE.findall(one.arg(1)):
            if name in set_by_guard or _PERSONAL.match(name):
                found.setdefault(name, one)
    return found


def _without_cookies(level: Level, kind: str, known: set[str]) -> bool:
    """Whether the application sees none, or the learn key has them in it."""
    if any(name == "http_cookie" or name.startswith("cookie_") for name in known):
        return True
    if level.value(f"{kind}_pass_request_headers") == "off":
        return True
    if kind in ("proxy", "grpc"):
        wanted, directive = "cookie", f"{kind}_set_header"
    else:
        wanted, directive = "http_cookie", f"{kind}_param"
    return any(
        one.arg().lower() == wanted and one.arg(1) == "" for one in level.all(directive)
    )


def check_status(patient: Patient, servers: list[Level]) -> None:
    """Purges that anybody may send."""
    for level in everything(servers):
        for status in level.own.get("http_sendfile_status", []):
            if status.arg() != "write" or level.guarded or level.internal:
                continue
            assert level.server is not None
            listens = level.server.own.get("listen", [])
            if not listens or any(not _LOCAL.match(one.arg()) for one in listens):
                patient.find(
                    "warning",
                    "status",
                    "anybody may purge the cache",
                    'write "allow 127.0.0.1; deny all;" into this location',
                    status,
                )
