"""The CPU of a practice host is the one with the fewest of them."""

import os
import subprocess

import pytest

from benchlab.practice import cpus


@pytest.mark.parametrize(
    ("allowed", "running", "cpu"),
    [
        ({0, 1}, [], 0),
        ({0, 1}, [{0}], 1),
        ({0, 1}, [{1}, {0}, {0}], 1),
        ({2, 3}, [{0}, {1}, {2}], 3),
        ({0, 1}, [{0, 1}], 0),  # bound to none
        ({5}, [{5}, {5}], 5),
    ],
)
def test_the_quietest(allowed, running, cpu):
    assert cpus.quietest(allowed, iter(running)) == cpu


def test_only_what_is_started_meanwhile_is_bound(tmp_path, monkeypatch):
    monkeypatch.setenv("BENCHLAB_HOSTS", str(tmp_path / "hosts"))
    before = os.sched_getaffinity(0)
    with cpus.bound() as cpu:
        child = subprocess.Popen(["sleep", "60"])
    try:
        assert os.sched_getaffinity(child.pid) == {cpu} <= before
        assert os.sched_getaffinity(0) == before
    finally:
        child.kill()
        child.wait()
