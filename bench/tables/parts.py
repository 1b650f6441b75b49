"""What several tables are made of: configurations of nginx with and without us."""

from bench.contestants.nginx import Nginx
from bench.dataset import FileSet, IdStore
from bench.runner import Entry
from bench.tables import Setting
from bench.workload import IdWorkload, PathWorkload

PROOF_FORMAT = "$sendfile_source $sendfile_status"
CACHED = "cache HIT"

# The record by the first request, the body by the second; one to spare.
PASSES = 3

# Of an answer from memory: a file that was changed, and so read again, is none.
NO_READS = 0.001

_OPEN_FILES = 30_000
_OTHER_DESCRIPTORS = 1_500


def open_file_cache(setting: Setting) -> str:
    """Return the directives: 30,000 files, or what the descriptor limit allows.

    Each cached file keeps a descriptor; a worker that runs out of them refuses
    connections.
    """
    files = min(_OPEN_FILES, setting.nginx.descriptors - _OTHER_DESCRIPTORS)
    return f"open_file_cache max={files} inactive=1h;\nopen_file_cache_valid 60s;"


def static_server(files: FileSet, extra: str = "") -> str:
    """Return a location that serves the files by their paths.

    Args:
        files: what is served below ``/files/``.
        extra: directives before it.
    """
    plain = f"location /files/ {{\n    alias {files.directory}/;\n}}"
    return f"{extra}\n{plain}" if extra else plain


def cache_zone(size: str) -> str:
    """Return the directive that makes the cache zone ``hot``."""
    return f"http_sendfile_cache_zone hot:{size};"


def direct_server(url: str, files: FileSet, *extra: str) -> str:
    """Return a location that serves the files by their IDs, from records that
    the cache keeps for an hour.

    Args:
        url: of the store.
        files: where they lie.
        extra: further directives.
    """
    lines = [
        "http_sendfile on;",
        f"http_sendfile_lookup {url};",
        f"http_sendfile_root {files.directory};",
        "http_sendfile_cache hot;",
        "http_sendfile_cache_valid 1h;",
        *extra,
    ]
    return "location /file/ {\n" + "".join(f"    {line}\n" for line in lines) + "}\n"


def redirect_server(url: str, files: FileSet) -> str:
    """Return the same, delivered by an internal redirect.

    Args:
        url: of the store.
        files: where they lie.
    """
    return (
        "location /file/ {\n"
        "    http_sendfile on;\n"
        f"    http_sendfile_lookup {url};\n"
        "    http_sendfile_prefix /files/;\n"
        "    http_sendfile_cache hot;\n"
        "    http_sendfile_cache_valid 1h;\n"
        "}\n"
        "\n"
        "location ^~ /files/ {\n"
        "    internal;\n"
        f"    alias {files.directory}/;\n"
        "}\n"
    )


def static_entry(
    nginx: Nginx, files: FileSet, title: str, role: str = "baseline"
) -> Entry:
    """Make nginx serving the files by their paths an entry.

    Args:
        nginx: configured with :func:`static_server`.
        files: what is asked for.
        title: of the contestant.
        role: its role.
    """
    return Entry(nginx, PathWorkload(files), title, role)


def static_entries(setting: Setting, files: FileSet) -> list[Entry]:
    """Return nginx static without and with open_file_cache, that one twice.

    Args:
        setting: of the table.
        files: what is served by its paths.
    """
    cached = static_server(files, open_file_cache(setting))
    entries = [
        ("static", "nginx static", "baseline", static_server(files)),
        ("static-ofc", "nginx static, open_file_cache", "baseline", cached),
        ("static-ofc-again", "the same again", "noise", cached),
    ]
    return [
        static_entry(Nginx(name, setting.nginx, server), files, title, role)
        for name, title, role, server in entries
    ]


def cached_entry(
    setting: Setting,
    nginx: Nginx,
    store: IdStore,
    title: str,
    *,
    role: str = "ours",
    passes: int = PASSES,
    from_memory: bool = False,
) -> Entry:
    """Make ours an entry: each answer must be a hit of the cache.

    Args:
        setting: whether our module is there.
        nginx: configured with a cache.
        store: what is asked for.
        title: of the contestant.
        role: its role.
        passes: how often everything is asked for beforehand.
        from_memory: whether no file may be read.
    """
    return Entry(
        nginx,
        IdWorkload(store),
        title,
        role,
        proof=(nginx.logging(PROOF_FORMAT), CACHED),
        missing=setting.module_missing,
        passes=passes,
        reads=NO_READS if from_memory else None,
    )
