"""What the tests of explain stand on: what it says is what happens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from .client import Headers, Response
from .nginx import Nginx

STATUS = "location /status { http_sendfile_status; }\n"

OUTCOMES = {"sent", "failed", "application", "not_ours", "unknown"}
STATES = {"ok", "failed", "note"}
FIELDS = {
    "url",
    "verdict",
    "outcome",
    "status",
    "source",
    "result",
    "reason",
    "step",
    "advice",
    "steps",
    "headers",
    "worker",
}


@dataclass(frozen=True)
class Explained:
    """An answer of explain."""

    document: Mapping[str, Any]
    steps: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """How it ends."""
        return str(self.document["outcome"])

    @property
    def status(self) -> int | None:
        """What the client gets, None if that is not known."""
        status = self.document["status"]
        return None if status is None else int(status)

    @property
    def verdict(self) -> str:
        """The answer in one sentence."""
        return str(self.document["verdict"])

    @property
    def advice(self) -> str:
        """What to change."""
        return "\n".join(self.document["advice"])

    def step(self, name: str, number: int = 0) -> Mapping[str, Any]:
        """Return a step by its name, and its number among those of the name."""
        return [step for step in self.steps if step["step"] == name][number]

    def has(self, name: str) -> bool:
        """Whether there is a step of that name."""
        return any(step["step"] == name for step in self.steps)

    def headers(self) -> dict[str, str]:
        """The headers of the response that would be."""
        return {name: value for name, value in self.document["headers"]}


def parse(response: Response) -> Explained:
    """Return what explain has answered, having checked its form."""
    assert response.status == 200, response
    assert response.header("Content-Type") == "application/json"
    document = json.loads(response.body)
    assert set(document) == FIELDS
    assert document["outcome"] in OUTCOMES
    assert document["verdict"] and document["step"]
    for step in document["steps"]:
        assert step["state"] in STATES
        assert step["step"] and step["text"]
    return Explained(document, document["steps"])


def explain(
    nginx: Nginx,
    url: str,
    host: str = "",
    location: str = "/status",
    headers: Headers | None = None,
) -> Explained:
    """Ask for an explanation.

    Args:
        nginx: to ask.
        url: with scheme and host, or a path.
        host: the header Host of the explained request.
        location: the status location.
        headers: of the question.
    """
    target = f"{location}/explain?url={quote(url, safe='')}"
    if host:
        target += f"&host={quote(host, safe='')}"
    return parse(nginx.get(target, headers))


def same(nginx: Nginx, uri: str, host: str = "", port: str = "") -> Explained:
    """Ask for an explanation, then do the request: they have to agree.

    Args:
        nginx: to ask.
        uri: of the request.
        host: the header Host of the request.
        port: the name of the nginx's port that the request goes to.
    """
    url = f"http://127.0.0.1:{nginx.port_of(port)}{uri}"
    explained = explain(nginx, url, host)
    before = len(nginx.access_entries(uri))
    with nginx.connect(port) as connection:
        real = connection.request("GET", uri, {"Host": host} if host else None)
    entry = nginx.logged(uri, before + 1)
    told = json.dumps(explained.document, indent=1)
    if explained.status is not None:
        assert explained.status == real.status, told
    if explained.outcome != "unknown":
        assert explained.document["source"] == entry.source, told
        if explained.outcome != "application":
            assert explained.document["result"] == entry.status, told
            assert (explained.document["reason"] or "-") == entry.reason, told
    if explained.outcome == "sent":
        for name, value in explained.headers().items():
            assert real.all(name) == [value], told
    assert explained.document["advice"] or explained.outcome in (
        "sent",
        "application",
        "not_ours",
        "unknown",
    ), told
    return explained
