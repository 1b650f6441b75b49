"""The program: signals, exit codes, and one line for whatever goes wrong."""

from __future__ import annotations

import os
import sys

from sendfilectl import output, signals
from sendfilectl.errors import CtlError


def main() -> None:
    """Runs the program and exits: 0 done, 1 failed, 2 usage, 128 + a signal."""
    _open_streams()
    signals.install(lambda error: output.current().interrupted(error))
    try:
        code = _run()
        sys.stdout.flush()
    except signals.Interrupted as error:
        with signals.shield_for_good():
            output.current().interrupted(error)
            code = error.exit_code
    except BrokenPipeError:
        code = 1
    except OSError as error:
        output.current().warn(f"stdout: {(error.strerror or str(error)).lower()}")
        code = 1
    if code:
        # what is left in the buffer has nowhere to go
        _silence()
    sys.exit(code)


def _open_streams() -> None:
    """Takes the numbers of streams that are closed, lest a store get one of them."""
    closed = []
    for fd, mode in ((0, "r"), (1, "w"), (2, "w")):
        try:
            os.fstat(fd)
        except OSError:
            closed.append(fd)
            # the lowest free number, which is this one
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, ("stdin", "stdout", "stderr")[fd], os.fdopen(fd, mode))
    if 1 in closed:
        print("sendfilectl: stdout is closed", file=sys.stderr)
        sys.exit(1)


def _run() -> int:
    from sendfilectl.app import app

    try:
        app(prog_name="sendfilectl")
    except CtlError as error:
        output.current().fail(str(error), usage=error.exit_code == 2)
        return error.exit_code
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        output.current().fail(f"{where}{(error.strerror or str(error)).lower()}")
        return 1
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(bool(error.code))
    return 0


def _silence() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
