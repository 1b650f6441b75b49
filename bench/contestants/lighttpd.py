"""lighttpd, which serves small files from memory that it reads them into."""

import shutil
from pathlib import Path

from bench.contestants.single import Single
from bench.model import Address

# What its documentation's page on performance asks for: no modules that are not
# used, no access log, connections that are kept, enough descriptors. Event
# handler (epoll), writing (sendfile, writev for small files) and the cache of
# stat() are its defaults, named here to be seen.
_CONFIGURATION = """\
server.bind = "@HOST@"
server.port = @PORT@
server.document-root = "@ROOT@"
server.errorlog = "/dev/stderr"

server.compat-module-load = "disable"
server.modules = ( "mod_staticfile" )

server.event-handler = "linux-sysepoll"
server.network-backend = "sendfile"
server.stat-cache-engine = "@STAT@"

server.max-fds = @DESCRIPTORS@
server.max-connections = @CONNECTIONS@
server.max-keep-alive-requests = 65535
server.max-keep-alive-idle = 3600
server.max-read-idle = 3600
server.max-write-idle = 3600

mimetype.assign = ( ".html" => "text/html", ".txt" => "text/plain",
                    ".jpg" => "image/jpeg", ".pdf" => "application/pdf",
                    "" => "application/octet-stream" )
"""
_PATH = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"


def missing() -> str | None:
    """Say why it cannot run, None if it can."""
    if shutil.which("lighttpd", path=_PATH) is None:
        return "lighttpd is not installed (Debian package lighttpd)"
    return None


def lighttpd(
    name: str, core: int, files: Path, descriptors: int, stat_cache: str
) -> Single:
    """Make a contestant that serves ``/files/...``.

    Args:
        name: short name, unique in its table.
        core: where it runs.
        files: directory of the files.
        descriptors: how many it may have open.
        stat_cache: ``simple`` (a file is looked at again after a second) or
            ``inotify`` (when the kernel says that it changed).
    """

    def configuration(address: Address, directory: Path) -> str:
        root = directory / "root"
        root.mkdir(exist_ok=True)
        link = root / "files"
        link.unlink(missing_ok=True)
        link.symlink_to(files)
        return (
            _CONFIGURATION.replace("@HOST@", address.host)
            .replace("@PORT@", str(address.port))
            .replace("@ROOT@", str(root))
            .replace("@STAT@", stat_cache)
            .replace("@DESCRIPTORS@", str(descriptors))
            .replace("@CONNECTIONS@", str(min(1024, descriptors // 2)))
        )

    def argv(address: Address, directory: Path) -> list[str]:
        program = shutil.which("lighttpd", path=_PATH) or "lighttpd"
        return [program, "-D", "-f", str(directory / "server.conf")]

    return Single(
        name, core, argv=argv, configuration=configuration, complaints=_complaints
    )


def _complaints(lines: list[str]) -> list[str]:
    """Return all but what it says when it starts and when it is stopped."""
    return [
        line
        for line in lines
        if line.strip()
        and "server started" not in line
        and "server stopped by UID" not in line
    ]
