"""dynamo's files as we lay them out: whole, of what they should be, and nothing left where it could not be."""

from __future__ import annotations

import errno
import os
import zlib
from pathlib import Path

import pytest

from agents.dynamo import areas
from agents.dynamo.areas import Area
from agents.dynamo.wire import DynamoError
from tests.agents import dynamo_sim_rules
from tests.agents.dynamo_scripts import target

MIB = 1 << 20


def quietly(done: int, wanted: int) -> None: ...


@pytest.mark.parametrize("size", [4096, 5 * MIB, 4 * MIB + 4096, 4 * MIB + 1000])
def test_every_byte_is_written(tmp_path: Path, size: int) -> None:
    area = Area(str(tmp_path / "iometer1"), size)
    seen: list[tuple[int, int]] = []
    areas.lay_out([area], 1, lambda *at: seen.append(at))
    assert area.is_ready() and areas.incomplete_file([area]) == ""
    found = area.file.stat()
    assert found.st_size == size and found.st_blocks * 512 >= size  # no holes
    assert found.st_mode & 0o777 == 0o600
    assert seen[0] == (0, size) and seen[-1] == (size, size)
    assert seen == sorted(seen)


def test_what_is_written_is_as_the_pattern_says(tmp_path: Path) -> None:
    for pattern, share in ((1, 1.0), (0, 0.01)):
        area = Area(str(tmp_path / str(pattern)), MIB)
        areas.lay_out([area], pattern, quietly)
        raw = area.file.read_bytes()
        assert len(zlib.compress(raw)) / MIB == pytest.approx(share, abs=0.01)


def test_a_short_file_is_made_anew_and_not_appended_to(tmp_path: Path) -> None:
    area = Area(str(tmp_path / "iometer1"), MIB)
    area.file.parent.mkdir()
    area.file.write_bytes(b"x" * 4096)
    areas.lay_out([area], 1, quietly)
    assert area.file_bytes() == MIB
    assert area.file.read_bytes()[:4096] != b"x" * 4096


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"theirs")
    area = Area(str(tmp_path / "iometer1"), MIB)
    area.file.parent.mkdir()
    area.file.symlink_to(other)
    areas.lay_out([area], 1, quietly)
    assert other.read_bytes() == b"theirs"
    assert not area.file.is_symlink()


def test_who_watches_can_end_it(tmp_path: Path) -> None:
    def watch(done: int, wanted: int) -> None:
        if done:
            raise DynamoError("cancelled", "stopped on request")

    area = Area(str(tmp_path / "iometer1"), 64 * MIB)
    with pytest.raises(DynamoError, match="stopped"):
        areas.lay_out([area], 1, watch)
    assert area.file_bytes() == areas.PIECE and not area.is_ready()


def test_a_disk_that_is_full_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, piece: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    area = Area(str(tmp_path / "iometer1"), MIB)
    with pytest.raises(DynamoError, match=r"iobw.tst: No space left on device, at 0 of 1048576"):
        areas.lay_out([area], 1, quietly)


def test_without_direct_io_it_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = os.open

    def none(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return plain(path, flags, mode)

    monkeypatch.setattr(os, "open", none)
    area = Area(str(tmp_path / "iometer1"), MIB)
    areas.lay_out([area], 1, quietly)
    assert area.file_bytes() == MIB


@pytest.mark.parametrize(("kind", "share"), [("xfs", 16), ("ext4", 1), ("btrfs", 1)])
def test_the_simulation_does_on_xfs_what_dynamo_does(
    monkeypatch: pytest.MonkeyPatch, kind: str, share: int
) -> None:
    """Seen with the real one: 4 of 64 MiB, 8 of 128."""
    monkeypatch.setattr(dynamo_sim_rules, "bytes_of", lambda found: 64 * MIB)
    assert dynamo_sim_rules.laid_out(target("disk1", 1), kind) == 64 * MIB // share
    assert dynamo_sim_rules.file_system(Path("/proc")) == "proc"


@pytest.mark.parametrize("places", [{}, {"mount": "/mnt", "volume": "/dev/sdb"}])
def test_either_a_mount_point_or_a_volume_is_needed(places) -> None:
    with pytest.raises(DynamoError, match="either a mount point or a volume"):
        areas.find_place(areas.TestSettings("/opt/dynamo", (), **places))
