"""Each installation has practice hosts of its own; images, and what must know all hosts, are everybody's."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import pytest

from benchlab.practice import PracticeError, UmlHost, cpus, list_hosts, open_host, paths, store
from benchlab.practice.machine import HostRecord
from benchlab.practice.process import ProcessId
from benchlab.testing import leftovers
from benchlab.up import practice
from benchlab.up.state import state_from_environment


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.delenv("BENCHLAB_HOSTS", raising=False)
    monkeypatch.setenv("BENCHLAB_CACHE", str(tmp_path / "cache"))
    # Its own leftovers are the suite's to clear.
    monkeypatch.setattr(leftovers, "memory_place", lambda: tmp_path / "memory")
    return tmp_path / "cache"


@pytest.fixture
def at(tmp_path, monkeypatch):
    """From now on this process is of that installation."""
    return lambda name: monkeypatch.setenv("BENCHLAB_STATE", str(tmp_path / name))


def make(directory: Path, image: str = "root-1", owner: ProcessId | None = None) -> HostRecord:
    """A host that is powered off."""
    directory.mkdir(parents=True)
    made = HostRecord("uml", 2222, 256, image, "0" * 32, (), (), owner)
    made.save(directory)
    return made


def ended() -> ProcessId:
    """A process that is no more."""
    child = subprocess.Popen(["sleep", "60"])
    found = ProcessId.of_pid(child.pid)
    child.kill()
    child.wait()
    return found


def test_another_installations_host_is_not_ours_to_stop(at):
    at("one")
    mine = UmlHost("practice")
    make(mine.directory)
    at("another")
    theirs = UmlHost("practice")
    assert not theirs.exists and list_hosts() == []
    assert theirs.network.name != mine.network.name
    with pytest.raises(PracticeError, match="there is no practice host"):
        open_host("practice")
    theirs.stop()
    assert mine.exists
    at("one")
    assert [host.name for host in list_hosts()] == ["practice"]


def test_an_installation_is_what_up_takes_for_one(at, monkeypatch):
    for name in ("one", "another"):
        at(name)
        assert paths.hosts_dir().name == state_from_environment().tag
    monkeypatch.delenv("BENCHLAB_STATE")
    assert paths.hosts_dir().name == state_from_environment().tag


def test_images_are_shared_and_kept_while_any_host_uses_them(at, cache):
    at("one")
    images = paths.images_dir()
    make(paths.hosts_dir() / "practice", image="used-there")
    make(paths.common_dir() / "older", image="used-before")
    at("another")
    assert paths.images_dir() == images
    for name in ("used-there", "used-before", "unused"):
        (images / name).mkdir(parents=True)
        (images / name / "used").touch()
        os.utime(images / name / "used", (0, 0))
    store._forget_old("new")
    assert {path.name for path in images.iterdir()} == {"used-there", "used-before"}


def test_hosts_of_all_installations_share_the_cpus(at):
    at("one")
    child = subprocess.Popen(["sleep", "60"])
    cpu = min(os.sched_getaffinity(0))
    os.sched_setaffinity(child.pid, {cpu})
    try:
        home = paths.hosts_dir() / "practice"
        running = dataclasses.replace(make(home), kernel=ProcessId.of_pid(child.pid))
        running.save(home)
        at("another")
        assert list(cpus._pinned_cpus()) == [{cpu}]
    finally:
        child.kill()
        child.wait()


def test_what_dead_tests_left_is_cleared_wherever_it_is_and_nothing_else(at):
    at("gone")
    gone = paths.hosts_dir() / "rig-left"
    make(gone, owner=ended())
    kept = paths.hosts_dir() / "practice"
    make(kept)
    owned = paths.hosts_dir() / "rig-mine"
    make(owned, owner=ProcessId.of_pid(os.getpid()))
    older = paths.common_dir() / "rig-older"
    make(older, owner=ended())
    at("another")
    assert set(leftovers._hosts()) == {"rig-left", "rig-older"}
    assert not gone.exists() and not older.exists() and kept.exists() and owned.exists()


def test_a_host_of_before_is_told_of(at):
    at("one")
    make(paths.common_dir() / "practice")
    said = practice._shared(UmlHost("practice"))
    assert f"BENCHLAB_HOSTS={paths.common_dir()} python3 -m benchlab.practice stop practice" in said
    assert practice._shared(UmlHost("other")) == ""
