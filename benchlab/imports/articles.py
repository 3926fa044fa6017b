# SPDX-License-Identifier: Apache-2.0
"""Articles of the reference library, as they lie in `library/SLUG/`: article.toml, and texts as they print them.

article.toml:

    title, original_title, author, date, url, about      # all text
    [hosts.KEY]        name, notes; where the article tells them disks = { role = [names] }, the kernel's or a cloud's,
                       and rated = { role = { iops = 500, bandwidth = 60e6 } }, either of them
    [topologies.KEY]   name, description, stack           # as agents.plans.chain.specs takes it
    [[campaigns]]      name, question
    [[campaigns.results]]
    file, host, topology, workload                        # a text's name, keys, the workload's name
    number = 1                                            # which of the results that the text holds
    point = {…}, outstanding = 4, version = "9.3.4"        # where the text does not tell
    beside = [{ file, number }]                           # what watched meanwhile

A file that ends in `.figures.txt` is a transcription of ours (agents/readers/figures.py); all others are raw output.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIBRARY = Path(__file__).with_name("library")
TOML = "article.toml"
TEXT_KEYS = ("title", "original_title", "author", "date", "url", "about")


class ArticleError(Exception):
    """An article that cannot be used; the text names folder, file and what is wrong."""


@dataclass(frozen=True, slots=True)
class Article:
    """A folder's content, not yet read: texts byte for byte."""

    slug: str
    files: Mapping[str, bytes]

    @property
    def sha256(self) -> str:
        """Hash of all files: another hash means another article."""
        digest = hashlib.sha256()
        for name, raw in sorted(self.files.items()):
            digest.update(f"{name}\0{len(raw)}\0".encode())
            digest.update(raw)
        return digest.hexdigest()

    def parse_toml(self) -> dict[str, Any]:
        """The parsed article.toml. Raises ArticleError."""
        try:
            content = tomllib.loads(self.files[TOML].decode())
        except (KeyError, ValueError) as error:
            raise ArticleError(f"{self.slug}/{TOML}: {error}") from None
        missing = [
            key for key in (*TEXT_KEYS, "hosts", "topologies", "campaigns") if key not in content
        ]
        if missing:
            raise ArticleError(f"{self.slug}/{TOML} lacks {', '.join(missing)}")
        return content

    def read_text(self, name: str) -> str:
        """Raises ArticleError."""
        try:
            return self.files[name].decode().replace("\r\n", "\n")
        except (KeyError, ValueError) as error:
            raise ArticleError(f"{self.slug}/{name}: {error!r}") from None


def articles(folder: Path = LIBRARY) -> Sequence[Article]:
    """All of them, by slug."""
    return [
        Article(
            path.name, {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}
        )
        for path in sorted(folder.iterdir())
        if (path / TOML).is_file()
    ]
