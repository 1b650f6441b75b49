"""Options that several commands have.

Their annotations are no strings, since typer cannot read such in Python 3.9.
"""

import math
from typing import Annotated, Optional

import typer

# where the status location is, if nothing is said
DEFAULT_STATUS = "http://127.0.0.1/sendfile-status"
STATUS_VARIABLE = "SENDFILECTL_STATUS"

# a socket takes no more than the seconds of some decades
MAX_SECONDS = 86_400


def finite(value: Optional[float]) -> Optional[float]:
    """Refuses "nan", which no minimum and maximum refuse.

    Raises:
        typer.BadParameter: it is that.
    """
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a number of seconds")
    return value


StoreArg = Annotated[
    str,
    typer.Argument(
        metavar="STORE",
        help="lmdb:/path or memcached://host[:port]",
        show_default=False,
    ),
]
LmdbArg = Annotated[
    str, typer.Argument(metavar="STORE", help="lmdb:/path", show_default=False)
]
JsonOpt = Annotated[
    bool, typer.Option("--json", help="Print one JSON document in place of text.")
]
FormatOpt = Annotated[
    Optional[str],
    typer.Option("--format", metavar="csv|tsv|ndjson", help="Format of the lines."),
]
DryRunOpt = Annotated[
    bool, typer.Option("--dry-run", help="Check everything, store nothing.")
]
SingleOpt = Annotated[
    bool,
    typer.Option("--single-file", help="Make a new LMDB store one file, no directory."),
]
GroupOpt = Annotated[
    Optional[str],
    typer.Option(
        "--group",
        metavar="NAME",
        help="Give the LMDB store to this group only, say www-data: "
        "lock file 0660, data 0640, directory 0750.",
    ),
]
ModeOpt = Annotated[
    Optional[str],
    typer.Option(
        "--mode",
        metavar="MODE",
        help="Mode of LMDB's lock file, for who publishes; 0660 by default.",
    ),
]
TtlOpt = Annotated[
    Optional[int],
    typer.Option(
        "--ttl",
        min=1,
        metavar="SECONDS",
        help="After so long memcached forgets what is stored now; never by default.",
    ),
]
ConnectTimeoutOpt = Annotated[
    Optional[float],
    typer.Option(
        "--connect-timeout",
        min=0.001,
        max=MAX_SECONDS,
        callback=finite,
        metavar="SECONDS",
        help="How long a connection to memcached may take; 1 by default.",
        show_default=False,
    ),
]
TimeoutOpt = Annotated[
    Optional[float],
    typer.Option(
        "--timeout",
        min=0.001,
        max=MAX_SECONDS,
        callback=finite,
        metavar="SECONDS",
        help="How long memcached may say nothing; 5 by default.",
        show_default=False,
    ),
]
HttpConnectTimeoutOpt = Annotated[
    float,
    typer.Option(
        "--connect-timeout",
        min=0.001,
        max=MAX_SECONDS,
        callback=finite,
        metavar="SECONDS",
        help="How long a connection to nginx may take.",
    ),
]
HttpTimeoutOpt = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=0.001,
        max=MAX_SECONDS,
        callback=finite,
        metavar="SECONDS",
        help="How long nginx may say nothing.",
    ),
]
StatusOpt = Annotated[
    str,
    typer.Option(
        "--status",
        metavar="URL",
        envvar=STATUS_VARIABLE,
        help="Of the location with http_sendfile_status.",
    ),
]
