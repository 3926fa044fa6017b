"""Disks that are really full: a small tmpfs of our own, mounted where only the test sees it used."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchlab.up import bootstrap, command, postgres, state
from benchlab.up.state import State
from benchlab.up.trouble import Trouble

Mount = Callable[[str], Path]


@pytest.fixture
def mount() -> Iterator[Mount]:
    """Mounts a tmpfs with the options given."""
    with tempfile.TemporaryDirectory(prefix="benchlab-full-") as name:
        place = Path(name)

        def mounted(options: str) -> Path:
            argv = ["mount", "-t", "tmpfs", "-o", f"mode=755,{options}", "full", name]
            tried = subprocess.run(argv, capture_output=True, text=True, check=False)
            if tried.returncode:
                pytest.skip(f"no tmpfs can be mounted here: {tried.stderr.strip()}")
            place.chmod(0o755)
            return place

        yield mounted
        if os.path.ismount(name):
            subprocess.run(["umount", name], check=True)


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk to fill")


def fill(place: Path) -> None:
    """To the last byte."""
    with (place / "filler").open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(4096))
            except OSError:
                break
    assert os.statvfs(place).f_bavail == 0


def test_not_one_byte_left(mount, monkeypatch, capsys):
    place = mount("size=1m")
    fill(place)
    monkeypatch.setenv("BENCHLAB_STATE", str(place / "deep" / "state"))
    assert command.run(["manage.py", "up"]) == 2
    said = capsys.readouterr().err
    assert "nearly full: 0 MiB free" in said and "user who owns it" not in said
    assert [one.name for one in place.iterdir()] == ["filler"]


def test_a_state_directory_that_was_there_before(mount):
    place = mount("size=1m")
    here = place / "state"
    here.mkdir()
    fill(place)
    with pytest.raises(Trouble, match=r"nearly full: 0 MiB free.*BENCHLAB_STATE"):
        State(here).create()


def test_room_but_no_more_files(mount):
    place = mount("size=1g,nr_inodes=2")
    (place / "last").touch()
    with pytest.raises(Trouble, match=r"No space left on device\. Free some space.*BENCHLAB_STATE"):
        State(place / "state").create()
    with (
        pytest.raises(Trouble, match=r"No space left on device\. Free some space"),
        bootstrap.one_at_a_time(place),
    ):
        pass


def test_a_disk_that_fills_up_while_the_database_is_made(mount, monkeypatch):
    monkeypatch.setattr(state, "MIN_FREE", 1 << 20)  # it looked well when we began
    here = State(mount("size=24m") / "state")
    here.create()
    cluster = postgres.plan(here)
    with pytest.raises(Trouble, match=r"nearly full|no space left on the disk"):
        postgres.make_cluster(cluster)
    assert not cluster.data.exists()
    assert "No space left on device" in cluster.log.read_text()
