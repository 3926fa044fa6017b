"""`manage.py test` runs every test once, whatever its markers."""

from __future__ import annotations

from itertools import product

import pytest
from _pytest.mark.expression import Expression

from benchlab.up.testing import GROUPS, NEVER_SKIPPED

NAMES = ("rig", "browser", "alone")


def chosen(arguments: tuple[str, ...], markers: set[str]) -> bool:
    """Does a call with these arguments run a test with these markers?"""
    wanted = Expression.compile(arguments[arguments.index("-m") + 1])

    def has(name: str, /, **_: str | int | bool | None) -> bool:
        return name in markers

    return wanted.evaluate(has)


@pytest.mark.parametrize("has", product((False, True), repeat=len(NAMES)))
def test_every_test_is_in_one_group(has):
    markers = {name for name, yes in zip(NAMES, has, strict=True) if yes}
    titles = [title for title, arguments in GROUPS if chosen(arguments, markers)]
    assert len(titles) == 1
    if markers & {"rig", "browser"}:
        assert titles[0] in NEVER_SKIPPED, "it may be skipped where the rig is required"


def test_what_measures_has_the_machine_for_itself():
    for _, arguments in GROUPS:
        parallel = "-n" in arguments
        for markers in ({"alone"}, {"rig", "alone"}, {"browser"}):
            assert not (parallel and chosen(arguments, markers))
