"""Apache 2.4, with the event module and as many processes from first to last."""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.contestants.single import Single
from bench.model import Address

MODULES = Path("/usr/lib/apache2/modules")
_PATH = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
_CHILDREN = 2

# More than any load has connections, closing ones included, or it complains.
_THREADS = 128

# It refuses to run its children as root.
_USER = "User www-data\nGroup www-data\n"
_COMPLAINT = re.compile(r"[:\[](?:error|crit|alert|emerg)\]|^\[ [EC] ")

# As its documentation's page on performance asks for: the event module, no
# overrides, no checks for links, sendfile (off by default for the sake of
# network file systems), connections that are kept. The number of children is
# fixed, so that none is started within a timed run.
_CONFIGURATION = """\
ServerRoot "@DIRECTORY@"
ServerName localhost
Listen @HOST@:@PORT@
PidFile "@DIRECTORY@/apache.pid"
@USER@ErrorLog "@DIRECTORY@/error.log"
LogLevel warn

@MODULES@
ServerLimit @CHILDREN@
StartServers @CHILDREN@
ThreadLimit @EACH@
ThreadsPerChild @EACH@
MaxRequestWorkers @THREADS@
MinSpareThreads 1
MaxSpareThreads 1024

KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 3600
EnableSendfile On
ServerTokens Prod

<Directory />
    AllowOverride None
    Options FollowSymLinks
    Require all denied
</Directory>

@BODY@"""


def missing(*modules: str) -> str | None:
    """Say why it cannot run, None if it can.

    Args:
        modules: that it needs, for example ``xsendfile``.
    """
    if shutil.which("apache2", path=_PATH) is None:
        return "Apache is not installed (Debian package apache2)"
    for module in modules:
        if not (MODULES / f"mod_{module}.so").exists():
            return (
                f"mod_{module} is not installed (Debian package apache2"
                f" or libapache2-mod-{module})"
            )
    return None


def apache(
    name: str,
    core: int,
    body: Callable[[Address, Path], str],
    *,
    modules: Sequence[str] = (),
    processes: int = 0,
    lazy: bool = False,
) -> Single:
    """Make a contestant.

    Args:
        name: short name, unique in its table.
        core: where all of it runs.
        body: the rest of the configuration, from its address and directory.
        modules: beside those for files.
        processes: further ones, which a module starts.
        lazy: the module starts some when it is asked for something.
    """

    def configuration(address: Address, directory: Path) -> str:
        loads = "".join(
            f"LoadModule {module}_module {MODULES}/mod_{module}.so\n"
            for module in ("mpm_event", "authz_core", *modules)
        )
        text = (
            _CONFIGURATION.replace("@BODY@", body(address, directory))
            .replace("@MODULES@", loads)
            .replace("@CHILDREN@", str(_CHILDREN))
            .replace("@USER@", _USER if os.geteuid() == 0 else "")
            .replace("@EACH@", str(_THREADS))
            .replace("@THREADS@", str(_THREADS * _CHILDREN))
        )
        return _filled(text, address, directory)

    def argv(address: Address, directory: Path) -> list[str]:
        program = shutil.which("apache2", path=_PATH) or "apache2"
        return [
            program,
            *("-d", str(directory), "-f", str(directory / "server.conf")),
            *("-D", "FOREGROUND"),
        ]

    return Single(
        name,
        core,
        argv=argv,
        configuration=configuration,
        complaints=_complaints,
        processes=1 + _CHILDREN + processes,
        lazy=lazy,
    )


def _filled(text: str, address: Address, directory: Path) -> str:
    return (
        text.replace("@DIRECTORY@", str(directory))
        .replace("@HOST@", address.host)
        .replace("@PORT@", str(address.port))
    )


def files(directory: Path) -> str:
    """Return what serves ``/files/...``.

    Args:
        directory: of the files.
    """
    return (
        f'Alias /files/ "{directory}/"\n'
        f'<Directory "{directory}">\n'
        "    Require all granted\n"
        "</Directory>\n"
    )


def _complaints(lines: list[str]) -> list[str]:
    return [line for line in lines if _COMPLAINT.search(line)]
