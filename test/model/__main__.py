"""Ask the oracle: random nginxes, and whether each answer was allowed.

usage: build/venv/bin/python test/model [--requests N] [--seed S] [--case K]
           [--workers W] [--kinds plain,ifs,... | guides] [--first]

A case is one nginx with a random configuration. ``--seed`` and ``--case``
repeat one; ``--first`` ends with the first that is wrong. Which nginx is under
test is said as for test/http: NGX_FLAVOUR, NGX_BINARY, NGX_MODULE.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[1:1] = [str(ROOT / "test" / "http"), str(ROOT / "tools")]

from oracle.run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
