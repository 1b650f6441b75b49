"""Comparing answers header by header and byte by byte."""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime

from .client import Response


def _seconds(date: str) -> float:
    return parsedate_to_datetime(date).timestamp()


def comparable(response: Response) -> Response:
    """Take out of an answer what differs from one request to the next.

    Date is dropped, Expires becomes the seconds after Date, and the boundary
    of a multipart answer, a counter of nginx, becomes ``boundary``.
    Last-Modified goes to the end: nginx has it before the other headers if it
    prints it itself, and among them if it is given one.
    """
    date = response.header("Date")
    assert date is not None, "an answer without Date"
    headers: list[tuple[str, str]] = []
    body = response.body
    for name, value in response.headers:
        if name.lower() == "date":
            continue
        if name.lower() == "expires" and value.endswith("GMT"):
            after = _seconds(value) - _seconds(date)
            # far off, it is a fixed date
            value = value if abs(after) > 1e8 else f"{after:+.0f} s"
        match = re.fullmatch(r"(multipart/byteranges; boundary=)(\S+)", value)
        if match:
            body = body.replace(match[2].encode(), b"boundary")
            value = match[1] + "boundary"
        headers.append((name, value))
    headers.sort(key=lambda header: header[0].lower() == "last-modified")
    return Response(response.status, headers, body, response.version, response.closed)


def assert_same(response: Response, wanted: Response) -> None:
    """Check that an answer has the status, headers and body that are wanted.

    The headers' order counts, too.
    """
    got, want = comparable(response), comparable(wanted)
    assert (got.status, got.headers) == (want.status, want.headers)
    # not compared as a whole: the difference of two big bodies takes minutes
    assert len(got.body) == len(want.body)
    assert got.body == want.body, "the bodies differ"
    assert got.closed == want.closed, "one of the connections closes"
