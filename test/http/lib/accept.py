"""An application that sends X-Sendfile, and nginx that accepts it.

%%PASS%% passes a request to the application, %%ACCEPT%% accepts all headers
and allows the files of the site, and /static/ is nginx's own idea of them.
"""

from __future__ import annotations

from .gateway import Gateway, Lines, Said
from .site import Site

NAMES = "X-Sendfile X-Accel-Redirect X-LIGHTTPD-send-file"
ACCEPT = f"http_sendfile_accept {NAMES}; http_sendfile_allow %%FILES%%;"
STATIC = "location /static/ { alias %%FILES%%/; }"
SERVER = f"location / {{ %%ACCEPT%% %%PASS%% }} {STATIC} %%INTERNAL%%"


def use_gateway(site: Site, protocol: str = "http") -> Gateway:
    """Give a site an application; see the module's text."""
    gateway = site.gateway(protocol)
    site.variables["PASS"] = gateway.passes()
    site.variables["ACCEPT"] = ACCEPT
    return gateway


def sendfile(path: object, *lines: tuple[str, str], status: int = 200) -> Said:
    """Return the answer that has a file sent.

    Args:
        path: a Path, or what stands in X-Sendfile.
        lines: more headers.
        status: its code.
    """
    value = path if isinstance(path, bytes) else str(path)
    headers: Lines = [("X-Sendfile", value), *lines]
    return Said(status, headers)
