"""The log formats of docs/operations.md: they load, and JSON is JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

from lib.site import Site
from lib.wait import wait_until

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


def formats() -> str:
    """Return the directives as they are written there."""
    text = OPERATIONS.read_text(encoding="utf-8")
    found = re.findall(r"^log_format .*?;$", text, re.DOTALL | re.MULTILINE)
    assert len(found) == 2
    return "\n".join(found)


def test_documented_formats(site: Site) -> None:
    """Each line of a request is one line, and that of JSON has all values."""
    site.add(7)
    nginx = site.start(
        "location / { http_sendfile on; http_sendfile_key $arg_k; }"
        "location /file/ { http_sendfile on;"
        " http_sendfile_root %%FILES%%; } access_log %%DIR%%/logs/text.log files;"
        " access_log %%DIR%%/logs/json.log files_json;",
        http=formats(),
    )
    uris = ["/file/7", "/file/8", '/x?k="\\{}' + 250 * "y", "/other"]
    for uri in uris:
        nginx.get(uri.encode("latin-1"))
    log = site.directory / "logs"

    def lines(name: str) -> list[str]:
        written = (log / name).read_text(encoding="utf-8").splitlines()
        return written if len(written) >= len(uris) else []

    text = wait_until(lambda: lines("text.log"), what="the log as text")
    assert [len(text), "sendfile=HIT" in text[0]] == [len(uris), True]
    found = [
        json.loads(line)
        for line in wait_until(lambda: lines("json.log"), what="the log as JSON")
    ]
    assert [entry["uri"] for entry in found] == uris
    assert [entry["status"] for entry in found] == [200, 404, 404, 404]
    assert [entry["sendfile"] for entry in found] == ["HIT", "MISS", "INVALID", "-"]
    assert found[0]["target"] == "aa/7.dat" and found[0]["source"] == "lmdb"
    assert found[2]["key"] == '"\\{}' + 250 * "y"
