"""Many small cases in a single test, which reports every case that fails.

An item of its own costs pytest some milliseconds in each process of a run: far more than what most cases check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def check_each(
    check: Callable[[Case], object],
    cases: Iterable[Case],
    name: Callable[[Case], object] = repr,
) -> None:
    """Call `check` with every case. Raises a group of all failures, each with a note of its case's name.

    Raises AssertionError where there are no cases.
    """
    failures: list[BaseException] = []
    number = 0
    for case in cases:
        number += 1
        try:
            check(case)
        # What pytest itself raises, where an expected error does not come, is no Exception.
        except (Exception, pytest.fail.Exception) as failure:
            failure.add_note(f"case: {name(case)}")
            failures.append(failure)
    assert number, "there are no cases"
    if failures:
        names = ", ".join(failure.__notes__[-1].removeprefix("case: ") for failure in failures)
        raise BaseExceptionGroup(f"{len(failures)} of {number} cases fail: {names}", failures)
