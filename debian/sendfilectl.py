#!/usr/bin/python3
"""sendfilectl, whose modules are private to its package."""

import sys

sys.path.insert(0, "/usr/share/sendfilectl")

from sendfilectl.__main__ import main

if __name__ == "__main__":
    main()
