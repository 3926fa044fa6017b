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

The library's team has no members, so that everybody reads its rows and nobody changes them. The origin of its campaigns
keeps the hash of an article's folder: an article that changed is replaced, the others are not touched.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from agents.drivers import text_reading
from agents.texts.parsed_result import LineIndex, ParsedResult
from benchlab.campaigns.models import Campaign, Workload
from benchlab.hosts.models import Host
from benchlab.imports import services
from benchlab.imports.services import Result, TextExcerpt
from benchlab.team.models import Team
from benchlab.topologies.models import Topology
from benchlab.topologies.services import change_topology

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


NAME = "Reference library"
# in Campaign.origin
SLUG, SHA256 = "library", "sha256"


@transaction.atomic
def load_library(articles: Sequence[Article]) -> list[str]:
    """Make the stored library what `wanted` says; returns what was done, in words; [] when it was so already.

    Raises ArticleError or ValidationError; then nothing was changed.
    """
    library = Team.objects.filter(library=True).select_for_update().first() or _make_team()
    stored: dict[str, set[str]] = {}
    for origin in _library_campaigns(library).values_list("origin", flat=True):
        stored.setdefault(origin.get(SLUG, ""), set()).add(origin.get(SHA256, ""))
    hashes = {article.slug: article.sha256 for article in articles}
    stale = [slug for slug, stored_hashes in stored.items() if stored_hashes != {hashes.get(slug)}]
    _library_campaigns(library).filter(origin__library__in=stale).delete()
    fresh = [a for a in articles if a.slug in stale or a.slug not in stored]
    for article in fresh:
        _ArticleLoader(library, article).load_article()
    if stale:
        _delete_unused(library)
    removed = [slug for slug in stale if slug not in hashes]
    return [f"loaded {article.slug}" for article in fresh] + [f"removed {slug}" for slug in removed]


def _make_team() -> Team:
    """A team of users may have the name already."""
    is_taken = Team.objects.filter(name=NAME).exists()
    return Team.objects.create(name=f"{NAME} (BenchLab's)" if is_taken else NAME, library=True)


def _library_campaigns(library: Team) -> QuerySet[Campaign]:
    return Campaign.objects.filter(team=library, source=Campaign.Source.LIBRARY)


def _delete_unused(library: Team) -> None:
    """Remove what only replaced articles used."""
    Workload.objects.filter(team=library, runs=None).delete()
    Topology.objects.filter(team=library, runs=None).delete()
    Host.objects.filter(team=library, runs=None).delete()


class _ArticleLoader:
    """One article on its way into the database."""

    def __init__(self, library: Team, article: Article) -> None:
        self.library, self.article, self.toml = library, article, article.parse_toml()
        self.parsed_results: Callable[[str], Sequence[ParsedResult]] = cache(
            lambda name: text_reading.read_text(article.read_text(name), name).results
        )

    def load_article(self) -> None:
        try:
            hosts = {key: self._store_host(**table) for key, table in self.toml["hosts"].items()}
            stacks = {
                key: self._store_topology(**table) for key, table in self.toml["topologies"].items()
            }
            for campaign in self.toml["campaigns"]:
                self._store_campaign(campaign, hosts, stacks)
        except (KeyError, TypeError) as error:
            raise ArticleError(f"{self.article.slug}: {error!r} in article.toml") from error

    def _store_host(
        self,
        name: str,
        notes: str,
        disks: Mapping[str, Sequence[str]] | None = None,
        rated: Mapping[str, Mapping[str, float]] | None = None,
    ) -> Host:
        """Its `disks`, and what they are `rated` for, are kept with its results: a host that was only described has
        none."""
        host, _ = Host.objects.update_or_create(
            team=self.library,
            name=name,
            defaults={"notes": notes.strip(), "access": Host.Access.DESCRIBED},
        )
        return host

    def _store_topology(self, name: str, description: str, stack: list[dict[str, Any]]) -> Topology:
        """Checked like anybody's: its chain, and every layer's options."""
        existing = Topology.objects.filter(team=self.library, name=name).first()
        return change_topology(
            existing or Topology(team=self.library), name=name, description=description, stack=stack
        )

    def _store_campaign(
        self, table: Mapping[str, Any], hosts: Mapping[str, Host], stacks: Mapping[str, Topology]
    ) -> None:
        results = [self._build_result(row, hosts, stacks) for row in table["results"]]
        used = {piece.name for result in results for piece in (result.piece, *result.beside)}
        origin = {key: str(self.toml[key]).strip() for key in TEXT_KEYS}
        request = services.StoreRequest(
            team=self.library,
            user=None,
            name=table["name"],
            question=table["question"],
            results=results,
            sources={name: self.article.files[name] for name in sorted(used)},
            source=Campaign.Source.LIBRARY,
            origin=origin | {SLUG: self.article.slug, SHA256: self.article.sha256},
        )
        services.store_results(request)

    def _build_result(
        self, table: Mapping[str, Any], hosts: Mapping[str, Host], stacks: Mapping[str, Topology]
    ) -> Result:
        piece, host = self._build_excerpt(table), self.toml["hosts"][table["host"]]
        return Result(
            piece=piece,
            host=hosts[table["host"]],
            topology=stacks[table["topology"]],
            workload=table["workload"],
            point=table.get("point", piece.parsed.point),
            outstanding=table.get("outstanding", piece.parsed.outstanding),
            beside=tuple(self._build_excerpt(row) for row in table.get("beside", ())),
            disks=host.get("disks", {}),
            rated=host.get("rated", {}),
        )

    def _build_excerpt(self, table: Mapping[str, Any]) -> TextExcerpt:
        """The nth result of a file, with its lines."""
        name, number = table["file"], table.get("number", 1)
        results = self.parsed_results(name)
        if not 1 <= number <= len(results):
            where = f"{self.article.slug}/{name}"
            raise ArticleError(f"{where} holds {len(results)} results; article.toml wants {number}")
        result = results[number - 1]
        version = table.get("version", result.version)
        return TextExcerpt(
            replace(result, version=version),
            name,
            result.own_text(LineIndex(self.article.read_text(name))),
        )
