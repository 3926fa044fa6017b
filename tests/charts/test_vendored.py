"""Vendored files are what their tables say, with their licences, and the pages fetch nothing from elsewhere."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [ROOT / "static" / "vendor", ROOT / "tests" / "browser" / "vendor"]


def rows(folder: Path) -> list[list[str]]:
    lines = (folder / "VENDORED.md").read_text().splitlines()
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ][2:]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
def test_every_vendored_file_is_listed_with_its_hash_and_licence(folder):
    listed = set()
    for _, _, _, file, digest, licences in rows(folder):
        assert hashlib.sha256((folder / file).read_bytes()).hexdigest() == digest, file
        listed |= {file, *licences.split(", ")}
        assert all((folder / licence).is_file() for licence in licences.split(", "))
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert there == listed | {"VENDORED.md"}


def test_our_pages_load_nothing_from_elsewhere_and_carry_no_inline_code():
    for template in (ROOT / "templates").rglob("*.html"):
        text = template.read_text()
        assert not re.search(r"""(src|href|action)=["'](https?:)?//""", text), template
        if template.name != "report_file.html":  # one file, whose policy names each script's hash
            assert not re.search(r"<script(?![^>]*\bsrc=)[^>]*>", text), template
        assert not re.search(r"""\s(style|on[a-z]+)=["']""", text), template
