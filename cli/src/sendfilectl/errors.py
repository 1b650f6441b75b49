"""What can go wrong, as exceptions that the program turns into one line."""

from __future__ import annotations


class CtlError(Exception):
    """A failure the user is told about without a traceback.

    Args:
        message: what happened, to what, and what to do about it.
    """

    exit_code = 1


class UsageError(CtlError):
    """The command line cannot mean anything, whatever the store holds."""

    exit_code = 2


class StoreError(CtlError):
    """A store cannot be opened, read or written."""


class Refused(ValueError):
    """An ID, path or record that nginx would not accept.

    Args:
        reason: the rule that is broken and what to write instead.
    """
