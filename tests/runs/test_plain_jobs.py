"""The user of jobs on this very machine: `down` must find and end them, so not sudo's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from agents.contracts import Job
from benchlab.engine import jobs
from benchlab.engine.checks import planning
from benchlab.hosts.models import Host
from benchlab.runs.models import Layout

CLAIM = SimpleNamespace(node="/dev/sdb")


@pytest.mark.parametrize(
    ("is_local", "user", "claims", "plain"),
    [
        (True, "eve", (), True),
        (True, "root", (), False),  # the server's own processes are root's, too
        (True, "eve", (CLAIM,), False),  # a disk is root's
        (False, "eve", (), False),  # no `down` ends what runs elsewhere
    ],
)
def test_a_layout_without_disks_on_this_machine_needs_no_sudo(
    is_local, user, claims, plain, monkeypatch
):
    monkeypatch.setattr(planning, "stored_plan", lambda layout: SimpleNamespace(claims=claims))
    layout = cast(Layout, SimpleNamespace(host=Host(is_local=is_local, user=user)))
    assert jobs.runs_as_login_user(layout) is plain


def test_a_job_without_root_leaves_the_caches():
    whole = Job(("dd",), drop_caches=True)
    assert jobs.fit_to_user(whole, True) is whole
    plain = jobs.fit_to_user(whole, False)
    assert (plain.root, plain.drop_caches) == (False, False)
