"""What the fake servers answer."""


def body(number: int) -> bytes:
    """Return a body of about 500 bytes that begins with its number."""
    return b"%d\n" % number + b"x" * 500


class Numbers:
    """A workload: /0, /1, ... with the bodies above.

    Args:
        count: how many.
    """

    def __init__(self, count: int = 1_000) -> None:
        self._count = count

    @property
    def count(self) -> int:
        """How many different requests there are."""
        return self._count

    def url(self, index: int) -> str:
        """Return the request's path."""
        return f"/{index}"

    def body(self, index: int) -> bytes:
        """Return the exact body of the answer."""
        return body(index)

    def size(self, index: int) -> int:
        """Return the body's length in bytes."""
        return len(body(index))
