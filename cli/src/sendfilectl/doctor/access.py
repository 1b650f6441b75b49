"""What the workers' user may do, found out as that user where that is possible."""

from __future__ import annotations

import grp
import json
import os
import pwd
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath


@dataclass(frozen=True)
class User:
    """A user of the system.

    Attributes:
        name: of it.
        uid: its number.
        gids: its groups' numbers; the first is that of the workers.
    """

    name: str
    uid: int
    gids: tuple[int, ...]


@dataclass(frozen=True)
class Denied:
    """What is in the way.

    Attributes:
        path: of the directory or file.
        need: "enter" or "read".
        mode: its mode bits, owner and group, in words.
        remedy: what to do.
    """

    path: str
    need: str
    mode: str
    remedy: str


def find_user(name: str, group: str | None) -> User | None:
    """A user with its groups, as nginx's workers have them; None if there is none."""
    try:
        user = pwd.getpwnam(name)
        gid = grp.getgrnam(group).gr_gid if group else user.pw_gid
    except KeyError:
        return None
    others = os.getgrouplist(name, gid)
    return User(name, user.pw_uid, (gid, *(one for one in others if one != gid)))


def denied(user: User, path: str, need: str) -> Denied | None:
    """The first on the way to a path that the user may not enter, or the path itself.

    Args:
        user: of the workers.
        path: an absolute one; its links are followed.
        need: "enter" a directory, or "read" a file.

    Raises:
        OSError: there is something else, such as no file.
    """
    way: list[tuple[str, str]] = []
    for one in (path, os.path.realpath(path)):
        for parent in reversed(PurePath(one).parents):
            if (str(parent), "enter") not in way:
                way.append((str(parent), "enter"))
    way.append((os.path.realpath(path), need))
    os.stat(path)
    for (place, wanted), good in zip(way, _may(user, way)):
        if not good:
            found = os.stat(place)
            return Denied(place, wanted, _mode(found), _remedy(user, place, wanted))
    return None


def _mode(found: os.stat_result) -> str:
    owner, group = str(found.st_uid), str(found.st_gid)
    try:
        owner = pwd.getpwuid(found.st_uid).pw_name
        group = grp.getgrgid(found.st_gid).gr_name
    except KeyError:
        pass
    return f"{stat.S_IMODE(found.st_mode):04o} {owner}:{group}"


def _remedy(user: User, path: str, need: str) -> str:
    found = os.stat(path)
    bit = stat.S_IXGRP if need == "enter" else stat.S_IRGRP
    letter = "x" if need == "enter" else "r"
    if found.st_uid == user.uid:
        return f"chmod u+{letter} {path}"
    if found.st_gid in user.gids:
        return f"chmod g+{letter} {path}"
    if found.st_mode & bit and found.st_gid != 0:
        try:
            group = grp.getgrgid(found.st_gid).gr_name
        except KeyError:
            pass
        else:
            return (
                f"usermod -aG {group} {user.name} and restart nginx, or "
                f"chmod o+{letter} {path}"
            )
    return f"chmod o+{letter} {path}"


def _may(user: User, wanted: Sequence[tuple[str, str]]) -> list[bool]:
    """Whether a user may do some things."""
    if os.geteuid() != 0 or user.uid == 0:
        return [_may_by_mode(user, path, need) for path, need in wanted]
    # root can become that user, so that the kernel tells, ACLs and all
    theirs, ours = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.setgroups(user.gids)
            os.setgid(user.gids[0])
            os.setuid(user.uid)
            found = [
                os.access(path, os.X_OK if need == "enter" else os.R_OK)
                for path, need in wanted
            ]
            os.write(ours, json.dumps(found).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(ours)
    with os.fdopen(theirs, "rb") as pipe:
        text = pipe.read()
    if os.waitpid(child, 0)[1]:
        return [_may_by_mode(user, path, need) for path, need in wanted]
    answer: list[bool] = json.loads(text)
    return answer


def _may_by_mode(user: User, path: str, need: str) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        # behind one that this process may not enter either
        return True
    if user.uid == 0:
        return True
    bits = found.st_mode >> (
        6 if found.st_uid == user.uid else 3 if found.st_gid in user.gids else 0
    )
    return bool(bits & (1 if need == "enter" else 4))
