"""Programs that a host's page lists: those of its own system."""

from __future__ import annotations

import pytest

from benchlab.pages.hosts.queries import tool_rows
from tests.agents import made_up


@pytest.mark.parametrize(
    ("family", "listed", "unknown_there"),
    [("debian", {"fio", "lvm", "flashcache"}, {"gpart"}),
     ("freebsd", {"fio", "gpart", "bonnie++"}, {"lvm", "mdadm", "flashcache"})],
)  # fmt: skip
def test_another_systems_programs_are_not_missed(family, listed, unknown_there):
    rows = {row.program: row for row in tool_rows(made_up.facts({"os_family": family}))}
    assert listed <= rows.keys()
    assert not unknown_there & rows.keys()
    assert not any(row.present for row in rows.values())


def test_what_is_there_is_listed_anyway():
    facts = made_up.facts({"os_family": "freebsd", "tools": {"mdadm": "mdadm - v4.2"}})
    (row,) = [row for row in tool_rows(facts) if row.present]
    assert (row.program, row.version) == ("mdadm", "mdadm - v4.2")
