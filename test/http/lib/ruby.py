"""The module for Ruby, in the nginx of a site."""

from __future__ import annotations

import os
from pathlib import Path

from .site import Site

NAME = "ngx_http_sendfile_mruby_module.so"


def load_ruby(site: Site) -> None:
    """Let the site's nginx load the module, where it is not linked in.

    It lies beside the flavour's other module; NGX_MRUBY_MODULE names another.
    """
    if site.flavour.module is None:
        return
    beside = site.flavour.module.with_name(NAME)
    module = Path(os.environ.get("NGX_MRUBY_MODULE", beside))
    assert module.exists(), f"{module} is missing: run make build"
    site.variables["LOAD"] += f" load_module {module};"


def content(code: str, location: str = "/ruby") -> str:
    """Return a location that answers with a script.

    Args:
        code: Ruby; nginx.conf's quote, ', is escaped.
        location: its prefix.
    """
    return f"location {location} {{ mruby_content_handler_code '{quoted(code)}'; }}"


def quoted(code: str) -> str:
    """Return Ruby for a parameter in single quotes."""
    return code.replace("\\", "\\\\").replace("'", "\\'")
