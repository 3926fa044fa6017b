"""Names in a ZIP of raw output: whatever things are called, each unpacks once into its folder, on every system."""

from __future__ import annotations

import hashlib
import io
import subprocess
import unicodedata
import zipfile
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchlab.campaigns.models import Campaign
from benchlab.runs.models import Artifact, Attempt
from benchlab.sharing import raw_data
from benchlab.sharing.raw_data import ArchivePaths, safe_path
from tests.charts import made

HOSTILE = (
    "../../etc/passwd", "/etc/passwd", "..\\up", "C:\\x", "\\\\server\\share", "a/./b//c", "..", ".", "...", ". .", "0",
    "con", "NUL.txt", "a\nb", "a\u202eb", "A", "a", "a/b", "a/b/c", "é", "e\u0301", " ", "", "-rf", "~root", "x" * 200,
    "é" * 200, "SHA256SUMS", "../SHA256SUMS", "2-a", "a.", "a ", "stdout",
)  # fmt: skip


def check(paths: list[str], folder: str) -> None:
    """That they are relative, stay in the folder, and are each a file of its own, also where case is nothing."""
    keys = [unicodedata.normalize("NFC", one.casefold()) for one in paths]
    assert len(set(keys)) == len(keys)
    for path, key in zip(paths, keys, strict=True):
        parts = path.split("/")
        assert path.startswith(f"{folder}/") and len(parts) > folder.count("/") + 1
        assert all(part and part == part.strip().rstrip(".") for part in parts), path
        assert not PurePosixPath(path).is_absolute() and not PureWindowsPath(path).drive
        assert "\\" not in path and path.isprintable()
        assert all(len(part.encode()) <= 255 for part in parts)
        assert not any(other.startswith(f"{key}/") for other in keys), "a file that is a folder"


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("../../etc/passwd", "etc/passwd"),
        ("/etc/passwd", "etc/passwd"),
        ("..\\up", "up"),
        ("C:\\x", "C_/x"),
        ("a/./b//c", "a/b/c"),
        ("..", "output"),
        ("", "output"),
        ("0", "0"),
        ("stdout", "stdout"),
        (".hidden", ".hidden"),
        ("a\u202eb\nc", "a_b c"),
        ("NUL.txt", "_NUL.txt"),
    ],
)
def test_a_name_stays_below_its_folder(name, kept):
    assert safe_path(name) == kept


def test_names_that_would_be_one_are_told_apart():
    names = ArchivePaths()
    asked = ["a", "A", "a/b", "é", "e\u0301", "x/y", "x", "2-a"]
    found = [names.unique_path("f", name) for name in asked]
    told = ["f/a", "f/2-A", "f/3-a/b", "f/é", "f/2-e\u0301", "f/x/y", "f/2-x", "f/2-2-a"]
    assert found == told
    check(found, "f")
    assert names.unique_path("g", "a") == "g/a"  # of another folder


@given(st.lists(st.text(alphabet=st.sampled_from("aAbé./\\ \n:20\u202e"), max_size=8), max_size=12))
def test_whatever_they_are_called(asked):
    names = ArchivePaths()
    check([names.unique_path("run-1/attempt-1", name) for name in asked], "run-1/attempt-1")


@given(st.lists(st.text(max_size=200), max_size=8))
def test_whatever_text_they_are(asked):
    names = ArchivePaths()
    check([names.unique_path("run-1/attempt-1", name) for name in asked], "run-1/attempt-1")


@pytest.fixture
def campaign(team) -> Campaign:
    """Everything is called as badly as can be."""
    found = made.campaign(team, "../../etc")
    host = made.host(team, "../../etc")
    made.swept(found, host, made.topology(team, "0"), made.workload(team, "/abs"), depths=(1,))
    made.swept(found, host, made.topology(team, "..\\0"), made.workload(team, "C:\\x"), depths=(1,))
    for attempt in Attempt.objects.filter(run__campaign=found):
        for name in HOSTILE:
            if name:
                kept(attempt, name)
    return found


def kept(attempt: Attempt, name: str) -> None:
    content = f"{attempt.pk} {name}".encode()
    digest = hashlib.sha256(content).hexdigest()
    Artifact.objects.update_or_create(
        attempt=attempt, name=name, defaults={"content": content, "size": len(content), "sha256": digest},
    )  # fmt: skip


def test_an_archive_of_hostile_names_unpacks_into_its_folder(web, campaign, tmp_path):
    answer: Any = web.get(f"/campaigns/{campaign.pk}/report-raw.zip")
    assert f'filename="campaign-{campaign.pk}-report-raw.zip"' in answer["Content-Disposition"]
    with zipfile.ZipFile(io.BytesIO(answer.getvalue())) as packed:
        listed = packed.namelist()
        for info in packed.infolist():
            assert info.external_attr >> 28 in (0, 8)  # a file: no link, no device
        inside = tmp_path / "a" / "b" / "c"
        packed.extractall(inside)
    rows = Artifact.objects.filter(attempt__run__campaign=campaign)
    assert len(listed) == rows.count() + 1
    for attempt in Attempt.objects.filter(run__campaign=campaign):
        folder = f"run-{attempt.run_id}/attempt-{attempt.number}"
        own = [one for one in listed if one.startswith(f"{folder}/")]
        assert len(own) == attempt.artifacts.count()
        check(own, folder)
    there = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert {str(one.relative_to(inside)) for one in there} == set(listed)
    summed(inside)


def summed(inside: Path) -> None:
    """By the program that people have: a name with a line's end would be another file's."""
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", raw_data.SUMS],
        cwd=inside,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
