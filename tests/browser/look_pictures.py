"""Takes the pictures of docs/look: the pages that the look was drawn for, with real data, beside what was drawn.

python -m tests.browser.look_pictures OUT [MOCKUPS]

OUT gets PAGE-LOOK.webp for each page in light, in dark and on a phone; with MOCKUPS, a directory of PAGE-LOOK.png, also
`mockups/` with those, smaller. It takes a quarter of an hour, for what is seen is measured (look_pages.py);
BENCHLAB_LOOK_ONLY=home,plan takes some of them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

OUT, MOCKUPS, ONLY = "BENCHLAB_LOOK_OUT", "BENCHLAB_LOOK_MOCKUPS", "BENCHLAB_LOOK_ONLY"


def main(argv: list[str]) -> int:
    if not 1 <= len(argv) <= 2:
        print(__doc__)
        return 2
    os.environ[OUT] = str(Path(argv[0]).absolute())
    if argv[1:]:
        os.environ[MOCKUPS] = str(Path(argv[1]).absolute())
    os.environ["BENCHLAB_RIG"] = "required"
    return pytest.main(
        [str(Path(__file__).with_name("look_pages.py")), "-q", "-x", "-p", "no:cacheprovider"]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
