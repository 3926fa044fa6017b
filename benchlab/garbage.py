# SPDX-License-Identifier: Apache-2.0
"""Python's garbage collector in our processes: it leaves what was loaded, and comes less often than by itself.

Modules, models and addresses stay as long as a process does, some hundred thousand objects; to look through them again
and again is 3 to 15 % of a page's time, and a sixth of the tests' pages, which have fewer rows.
"""

from __future__ import annotations

import gc

# Objects more than before, then rounds: of the thousands that a step makes nearly all go by themselves.
WORKER_THRESHOLDS = 7_000, 20, 20
# A page's forms, templates and queries do hold themselves: more often than a step's.
WEB_THRESHOLDS = 2_000, 5, 5


def freeze_loaded_objects(often: tuple[int, int, int]) -> None:
    """Called once, when all is loaded. `often`: OF_STEPS or OF_PAGES."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*often)
