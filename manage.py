#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The only entry point. `up` starts everything; `help` lists the rest. No set-up is needed before."""

import sys


def main():
    # type: () -> int
    """Make the environment if need be, then do what was asked inside it."""
    if sys.version_info < (3, 11):  # noqa: UP036 -- this file runs under any python3
        sys.stderr.write("BenchLab needs Python 3.11 or newer. This one is too old:\n")
        sys.stderr.write(sys.version + "\n")
        return 2
    from benchlab.up.bootstrap import enter

    argv = enter(sys.argv)
    from benchlab.up.command import run

    return run(argv)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
