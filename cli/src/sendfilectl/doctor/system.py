"""The machine: module, permissions, limits, kernel."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
from collections.abc import Iterator

from sendfilectl.doctor.access import Denied, User, denied
from sendfilectl.doctor.config import Directive
from sendfilectl.doctor.finding import Patient
from sendfilectl.doctor.levels import Level, everything
from sendfilectl.doctor.program import (
    Said,
    module_version,
    modules,
    signature,
    version_text,
)
from sendfilectl.doctor.public import file_roots
from sendfilectl.doctor.stores import used

# the same on all machines but Alpha
_OPENAT2 = 437
_AT_FDCWD = -100
_RESOLVE_BENEATH = 0x08

_DEFAULT_CONNECTIONS = 512

# descriptors of a worker beside those of connections: logs, listening sockets,
# LMDB, roots that are kept open
_OTHERS = 128

# files that are looked at below a root
_SAMPLE = 200


def check_said(patient: Patient, said: list[Said]) -> None:
    """What nginx itself says of the configuration."""
    for one in said:
        where = Directive("", (), one.file, one.line) if one.file else None
        if one.refused:
            patient.find(
                "error",
                "config",
                f"nginx refuses the configuration: {one.text}",
                "mend that first; the other findings are those of the files as they are",
                where,
            )
        elif "anybody may ask for the files" not in one.text:
            text, _, write = one.text.removeprefix("http_sendfile: ").partition(": ")
            patient.find("warning", "config", text, write or "see nginx -t", where)


def check_module(patient: Patient, servers: list[Level], said: list[Said]) -> None:
    """That the module was built for this nginx, and is there at all."""
    program = patient.program
    loaded = modules(patient.config, program, patient.prefix)
    for one in loaded:
        try:
            version, kind = module_version(one.path), signature(one.path)
            ours = signature(program.path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            patient.find(
                "error",
                "module",
                f"{one.path}: {reason}",
                "make install, or correct the path",
                one.loaded,
            )
            continue
        if program.name == "nginx" and version not in (None, program.number):
            assert version is not None
            patient.find(
                "error",
                "module",
                f"{one.path} is built for nginx {version_text(version)}, and "
                f"{program.path} is {program.version}",
                "make install once more, with the nginx-dev of this nginx",
                one.loaded,
            )
        elif ours is not None and kind is not None and kind != ours:
            patient.find(
                "error",
                "module",
                f"{one.path} is not binary compatible with {program.path}: its "
                f"signature is {kind}, that of nginx {ours}",
                "build it with the configure arguments of this nginx: make install",
                one.loaded,
            )
    wanted = [level for level in everything(servers) if level.sendfile]
    unknown = any('unknown directive "http_sendfile' in one.text for one in said)
    if wanted and not loaded and unknown:
        patient.find(
            "error",
            "module",
            "http_sendfile is on, and the module is not loaded",
            'write "load_module modules/ngx_http_sendfile_module.so;" at the top',
            wanted[0].one("http_sendfile"),
        )
    accepting = any(
        level.value("http_sendfile_accept", "off") != "off"
        for level in everything(servers)
    )
    if not wanted and not accepting:
        patient.find(
            "note",
            "module",
            "neither http_sendfile nor http_sendfile_accept is on anywhere",
            'write "http_sendfile on;" into a location',
        )


def check_roots(patient: Patient, servers: list[Level], user: User) -> None:
    """That the workers may enter the directories of files, and read these."""
    seen: set[str] = set()
    for path, level in file_roots(patient, servers):
        if "$" in path:
            patient.unchecked.append(f"{path}: the directory is a variable's to say")
            continue
        if path in seen:
            continue
        seen.add(path)
        where = (
            next((a for a in level.all("http_sendfile_allow") if a.arg() == path), None)
            or level.nearest("http_sendfile_root", "alias", "root")
            or level.block
        )
        try:
            in_the_way = denied(user, path, "enter")
        except PermissionError:
            patient.unchecked.append(f"{path}: run doctor as root")
            continue
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            patient.find(
                "error", "root", f"{path}: {reason}", f"mkdir -p {path}", where
            )
            continue
        if in_the_way is None:
            in_the_way = _unreadable(user, path)
        if in_the_way is not None:
            patient.find(
                "error",
                "root",
                f"{user.name} may not {in_the_way.need} {in_the_way.path} "
                f"({in_the_way.mode}), so no worker can send the files of {path}",
                in_the_way.remedy,
                where,
            )


def _unreadable(user: User, root: str) -> Denied | None:
    """The first of some files that the user may not read."""
    for path, need in _some(root):
        try:
            found = denied(user, path, need)
        except OSError:
            # gone meanwhile, or a link to nowhere
            continue
        if found is not None:
            return found
    return None


def _some(root: str) -> Iterator[tuple[str, str]]:
    """Some directories and files below a root, those at the top first."""
    left, waiting = _SAMPLE, [root]
    while waiting and left > 0:
        try:
            entries = os.scandir(waiting.pop(0))
        except OSError:
            continue
        with entries:
            for entry in entries:
                if left <= 0:
                    return
                if entry.is_symlink():
                    continue
                if entry.is_dir():
                    left -= 1
                    waiting.append(entry.path)
                    yield entry.path, "enter"
                elif entry.is_file():
                    left -= 1
                    yield entry.path, "read"


def check_limits(patient: Patient, servers: list[Level]) -> None:
    """Descriptors and connections of a worker.

    Each connection may have a file beside it, or the application's connection, so a
    worker needs 2 x worker_connections + 128 descriptors.
    """
    tree = patient.config.tree
    events = next(tree.find("events"), None)
    found = next(events.find("worker_connections"), None) if events else None
    connections = int(found.arg()) if found is not None and found.arg().isdigit() else 0
    connections = connections or _DEFAULT_CONNECTIONS
    need = 2 * connections + _OTHERS
    limit = next(tree.find("worker_rlimit_nofile"), None)
    if limit is not None and limit.arg().isdigit():
        have, source = int(limit.arg()), "worker_rlimit_nofile says"
    else:
        have, source = _running_limit(patient)
    if have < need:
        patient.find(
            "error" if have < connections else "warning",
            "limits",
            f"{source} {have} descriptors for a worker, and {connections} connections "
            f"need up to {need}, for a file each",
            f'write "worker_rlimit_nofile {need};" at the top',
            limit or found,
        )
    stores = sum(
        one.connections
        for one in used(patient, servers)
        if not one.url.startswith("lmdb:")
    )
    if stores * 4 > connections:
        patient.find(
            "warning",
            "limits",
            f"{stores} of the {connections} connections of a worker are those to "
            "stores",
            f'write "worker_connections {connections + 4 * stores};"',
            found or events,
        )


def _running_limit(patient: Patient) -> tuple[int, str]:
    """The limit of the nginx that runs, else that of this process."""
    pid_file = next((one.arg() for one in patient.config.tree.find("pid")), "")
    pid_file = pid_file or patient.program.options.get("pid-path", "")
    try:
        with open(os.path.join(patient.prefix, pid_file), encoding="ascii") as file:
            pid = int(file.read(32))
        with open(f"/proc/{pid}/limits", encoding="ascii") as file:
            for line in file:
                if line.startswith("Max open files"):
                    return int(line.split()[3]), "the running nginx has"
    except (OSError, ValueError):
        pass
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        soft = 1 << 30
    return soft, "this shell has (nginx does not run, and may have others)"


def check_kernel(patient: Patient, servers: list[Level]) -> None:
    """That there is openat2()."""
    if platform.machine() == "alpha" or has_openat2():
        return
    if any(True for _ in file_roots(patient, servers)):
        patient.find(
            "note",
            "kernel",
            f"Linux {platform.release()} has no openat2(), or a filter forbids it: "
            "files are opened component by component, symbolic links never followed",
            "Linux 5.6 or later; in a container let seccomp allow openat2",
        )


def has_openat2() -> bool:
    """Whether the kernel has this system call, for this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    how = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_BENEATH)
    call = (ctypes.c_long(_OPENAT2), ctypes.c_int(_AT_FDCWD), b".", how)
    fd = int(libc.syscall(*call, ctypes.c_size_t(len(how))))
    if fd >= 0:
        os.close(fd)
        return True
    return ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM)
