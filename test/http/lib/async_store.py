"""The asynchronous store of test/module, which does as its URL says."""

from __future__ import annotations

import os
import re
from pathlib import Path

from .nginx import REPOSITORY, Nginx
from .site import Site
from .wait import wait_until

LINE = re.compile(r'test store: (get|done|cancel) "(.*?)"(?:$|,)')


def use_test_store(site: Site) -> None:
    """Let the site's nginx load the store ``test:``.

    The asan and static builds have it linked in. Another path of the module
    than build/test/ may be given by NGX_TEST_MODULE.
    """
    site.variables.setdefault("DELIVER", "")
    if site.flavour.module is None:
        return
    default = REPOSITORY / "build" / "test" / "ngx_http_sendfile_test_module.so"
    module = Path(os.environ.get("NGX_TEST_MODULE", default))
    assert module.exists(), f"{module} is missing: run make test-module"
    site.variables["LOAD"] += f" load_module {module};"


def slow(
    options: str = "delay=100,value=aa/%.dat", more: str = "", name: str = "slow"
) -> str:
    """Return a location /NAME/ that asks the store.

    Args:
        options: of the store, the path of its URL.
        more: directives.
        name: of the location.
    """
    return (
        f"location /{name}/ {{ http_sendfile on; %%DELIVER%% {more}"
        f" http_sendfile_lookup test:/{options}; }}\n"
    )


def keys(nginx: Nginx, what: str) -> list[str]:
    """Return the keys of what the store has logged, in order.

    Args:
        nginx: whose log.
        what: ``get``, ``done`` or ``cancel``.
    """
    found = []
    for line in nginx.errors("notice"):
        match = LINE.search(line)
        if match and match[1] == what:
            found.append(match[2])
    return found


def count(nginx: Nginx, what: str, key: int | str | None = None) -> int:
    """Count what the store has logged, of a key or of all."""
    return sum(key is None or k == str(key) for k in keys(nginx, what))


def wait_for(
    nginx: Nginx, what: str, key: int | str | None = None, number: int = 1
) -> None:
    """Wait until the store has logged something ``number`` times."""
    wait_until(
        lambda: count(nginx, what, key) >= number,
        what=f"{number} lines of the store's {what} {key}",
    )
