"""Archives of friends and of enemies. Nothing is written to disk, whatever they say."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from typing import Any

import pytest

from benchlab.imports.unpack import MAX_NAME_LENGTH, File, Limits, Unpacker, clean_name

SMALL = Limits(file=1000, total=5000, members=10, ratio=50, trifle=2000)


def unpacked(name: str, raw: bytes, limits: Limits | None = None) -> list[File]:
    return list(Unpacker(limits).unpack(name, io.BytesIO(raw), len(raw)))


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in files.items():
            archive.writestr(name, raw)
    return out.getvalue()


def tarred(files: dict[str, bytes], mode: Any = "w", members=()) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for member in members:
            archive.addfile(member)
        for name, raw in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    return out.getvalue()


FILES = {"a.txt": b"one\n", "dir/b.txt": b"two\n"}
SAME = [File("x/a.txt", b"one\n"), File("x/dir/b.txt", b"two\n")]


@pytest.mark.parametrize(
    "raw",
    [
        zipped(FILES), tarred(FILES), tarred(FILES, "w:gz"), tarred(FILES, "w:bz2"), tarred(FILES, "w:xz"),
        gzip.compress(tarred(FILES)[:1000]) + gzip.compress(tarred(FILES)[1000:]),
    ],
    ids=["zip", "tar", "tar.gz", "tar.bz2", "tar.xz", "tar.gz in two parts"],
)  # fmt: skip
def test_archives_give_their_files(raw):
    assert unpacked("x", raw) == SAME


@pytest.mark.parametrize(
    ("suffix", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)]
)
def test_a_compressed_file_is_itself(suffix, pack):
    text = b"".join(b"line %d\n" % n for n in range(100_000))
    assert unpacked(f"a.log.{suffix}", pack(text)) == [File("a.log", text)]


def test_a_plain_file_is_itself():
    assert unpacked("a.txt", b"hello\n") == [File("a.txt", b"hello\n")]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../etc/passwd", "etc/passwd"),
        ("/etc/passwd", "etc/passwd"),
        ("..\\..\\windows\\x", "windows/x"),
        ("a\x00b\n\x1b[31m\u202etxt", "ab[31mtxt"),
        ("", "unnamed"), ("..", "unnamed"), ("n" * 9000, "…" + "n" * (MAX_NAME_LENGTH - 1)),
    ],
)  # fmt: skip
def test_names_are_only_shown(name, shown):
    assert clean_name(name) == shown


def test_paths_that_lead_away_lead_nowhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for raw in (zipped({"../../evil": b"x"}), tarred({"../../evil": b"x", "/evil": b"y"})):
        assert all(file.name.startswith("x/evil") for file in unpacked("x", raw))
    assert not list(tmp_path.iterdir())


def test_equal_names_become_unlike():
    unpacker = Unpacker()
    found = [unpacker.unpack(n, io.BytesIO(b"x"), 1) for n in ("a.txt", "./a.txt", "a.txt")]
    assert [file.name for one in found for file in one] == ["a.txt", "a (2).txt", "a (3).txt"]


def test_links_and_devices_hold_no_text():
    link, pipe = tarfile.TarInfo("link"), tarfile.TarInfo("pipe")
    link.type, link.linkname, pipe.type = tarfile.SYMTYPE, "/etc/passwd", tarfile.FIFOTYPE
    found = unpacked("x", tarred({"a": b"1"}, members=[link, pipe]))
    assert [f.name for f in found] == ["x/link", "x/pipe", "x/a"]
    assert [bool(f.trouble) for f in found] == [True, True, False]
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    (one,) = unpacked("x", out.getvalue())
    assert "link" in one.trouble and not one.raw


def test_archives_in_archives_are_named():
    inner = zipped(FILES)
    for raw in (zipped({"in.zip": inner, "a": b"1"}), tarred({"in.zip": inner, "a": b"1"})):
        first, second = unpacked("x", raw)
        assert "unpack it first" in first.trouble and second == File("x/a", b"1")
    (found,) = unpacked("a.gz", gzip.compress(gzip.compress(b"x")))
    assert "archive in an archive" in found.trouble or "(gz)" in found.trouble


def test_other_archives_are_named():
    (found,) = unpacked("x.7z", b"7z\xbc\xaf\x27\x1c" + b"\0" * 100)
    assert "use zip or tar" in found.trouble


def test_encrypted_members_are_said():
    raw = bytearray(zipped({"a.txt": b"secret", "b.txt": b"open"}))
    local, central = raw.find(b"PK\x03\x04"), raw.find(b"PK\x01\x02")
    raw[local + 6] |= 1
    raw[central + 8] |= 1
    first, second = unpacked("x", bytes(raw))
    assert "encrypted" in first.trouble and second.raw == b"open"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_bomb_is_stopped_while_it_is_read(pack):
    limits = Limits(file=50_000_000, total=100_000_000, ratio=100, trifle=1_000_000)
    (found,) = unpacked("bomb", pack(b"\0" * 40_000_000), limits)
    assert "zip bomb" in found.trouble and not found.raw


def test_a_zip_bomb_is_stopped_whatever_its_headers_say():
    raw = bytearray(zipped({"a": b"\0" * 3_000_000}))
    limits = Limits(file=50_000_000, ratio=100, trifle=100_000)
    assert "zip bomb" in unpacked("x", bytes(raw), limits)[-1].trouble
    for start, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", raw, raw.find(start) + offset, 10)  # "only ten bytes"
    (found,) = unpacked("x", bytes(raw), limits)
    assert found.trouble and not found.raw


def test_one_file_too_large_leaves_the_others():
    found = unpacked("x", tarred({"big": b"ab\n" * 500, "a": b"1"}), SMALL)
    assert [(f.name, f.raw) for f in found] == [("x/big", b""), ("x/a", b"1")]
    assert "larger than" in found[0].trouble


def test_all_together_too_large_ends_it():
    unpacker = Unpacker(SMALL)
    found = [f for n in range(9) for f in unpacker.unpack(f"{n}", io.BytesIO(b"x" * 900), 900)]
    assert [bool(f.trouble) for f in found] == [False] * 5 + [True] * 4


def test_too_many_files_end_it():
    many = {str(n): b"x" for n in range(15)}
    for raw in (zipped(many), tarred(many)):
        found = unpacked("x", raw, SMALL)
        assert "more than 10 files" in found[-1].trouble and len(found) <= 12


def test_a_tar_whose_headers_are_a_bomb():
    """A pax header of many megabytes, compressed to nothing."""
    member = tarfile.TarInfo("a")
    member.pax_headers = {"comment": "x" * 8_000_000}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(member)
    found = unpacked("x", out.getvalue(), Limits(total=1_000_000))
    assert "zip bomb" in found[-1].trouble or "larger than" in found[-1].trouble
    plain = gzip.decompress(out.getvalue())
    assert "headers" in unpacked("x", plain, Limits(total=1_000_000))[-1].trouble


@pytest.mark.parametrize("cut", [10, 25, 200, -12, -3])
@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zip", "tar.gz"])
def test_what_is_cut_off_is_said(kind, cut):
    text = bytes(range(32, 127)) * 50
    packs: dict[str, Any] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress,
             "zip": lambda t: zipped({"a": t}), "tar.gz": lambda t: tarred({"a": t}, "w:gz")}  # fmt: skip
    whole = packs[kind](text)
    found = unpacked(f"x.{kind}", whole[:cut])
    assert found
    assert all(file.trouble or file.raw == text for file in found)


def test_flipped_bytes_end_in_words_or_the_right_bytes():
    text = b"".join(b"%d\n" % n for n in range(2000))
    packs = lambda t: zipped({"a": t}), lambda t: tarred({"a": t}, "w:gz"), gzip.compress, lzma.compress  # fmt: skip
    for pack in packs:
        raw = pack(text)
        for at in range(0, len(raw), max(1, len(raw) // 150)):
            broken = raw[:at] + bytes([raw[at] ^ 0x55]) + raw[at + 1 :]
            for file in unpacked("x", broken):
                assert file.trouble or file.raw == text or file.raw == broken


def test_an_xz_that_asks_for_gigabytes_of_memory():
    """A dictionary of 1.5 GiB, claimed in a header of 12 bytes."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 4096}]
    raw = bytearray(lzma.compress(b"hello", filters=filters))
    at = raw.index(b"\x21\x01", 12) + 2
    raw[at] = 39  # 3 GiB
    header = raw[12 : 12 + (raw[12] + 1) * 4 - 4]
    struct.pack_into("<I", raw, 12 + len(header), zlib.crc32(bytes(raw[12 : 12 + len(header)])))
    (found,) = unpacked("x.xz", bytes(raw))
    assert "emory" in found.trouble
