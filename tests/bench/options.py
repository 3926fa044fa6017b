"""The command line of a benchmark."""

from __future__ import annotations

import argparse


def none(says: str | None) -> None:
    """Of one that takes no options: tells `says`, its own documentation, where --help asks; refuses all else."""
    form = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(description=says, formatter_class=form).parse_args()
