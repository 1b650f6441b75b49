"""Checks answers byte for byte, outside the timed runs."""

import http.client
import ssl
from collections.abc import Iterable

from bench.model import Address, ContestantError
from bench.workload import Workload

_TIMEOUT = 60.0


def verify(
    address: Address, workload: Workload, indexes: Iterable[int], stage: str
) -> float:
    """Request everything once on one keep-alive connection and compare.

    Checked are the status (200), Content-Length (which only an answer in chunks
    may lack) and every byte of the body,
    which for a file includes its own ID.

    Args:
        address: the contestant's.
        workload: requests and expected answers.
        indexes: which requests; at least one.
        stage: named in errors.

    Returns:
        The mean length of the answers' heads in bytes.

    Raises:
        ContestantError: an answer is wrong or missing.
    """
    connection = _connection(address)
    heads = []
    try:
        for index in indexes:
            heads.append(_verify_one(connection, workload, index, stage))
    finally:
        connection.close()
    return sum(heads) / len(heads)


def _connection(address: Address) -> http.client.HTTPConnection:
    if address.certificate is None:
        return http.client.HTTPConnection(address.host, address.port, timeout=_TIMEOUT)
    trust = ssl.create_default_context(cafile=address.certificate)
    return http.client.HTTPSConnection(
        address.host, address.port, timeout=_TIMEOUT, context=trust
    )


def _verify_one(
    connection: http.client.HTTPConnection, workload: Workload, index: int, stage: str
) -> int:
    url = workload.url(index)
    expected = workload.body(index)
    try:
        connection.request("GET", url, headers={"Host": "localhost"})
        response = connection.getresponse()
        body = response.read()
    except http.client.IncompleteRead as error:
        raise ContestantError(
            stage,
            f"{url}: connection closed after {len(error.partial)} bytes of the"
            f" body, Content-Length promised {error.expected} more",
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise ContestantError(
            stage, f"{url}: no answer: {type(error).__name__}: {error}"
        ) from error
    if response.status != 200:
        raise ContestantError(stage, f"{url}: status {response.status}, not 200")
    length = response.getheader("Content-Length")
    # Without it the end of an answer is told by its last chunk, which the
    # client insists on.
    chunked = response.getheader("Transfer-Encoding") == "chunked"
    if length != str(len(expected)) and not (length is None and chunked):
        raise ContestantError(
            stage, f"{url}: Content-Length {length}, not {len(expected)}"
        )
    if body != expected:
        raise ContestantError(
            stage,
            f"{url}: wrong body, begins {body[:16]!r}, not {expected[:16]!r}",
        )
    return _head_length(response)


def _head_length(response: http.client.HTTPResponse) -> int:
    """Length of status line, header lines and the empty line, as sent."""
    status = len(f"HTTP/1.1 {response.status} {response.reason}\r\n")
    lines = sum(len(f"{name}: {value}\r\n") for name, value in response.getheaders())
    return status + lines + len("\r\n")
