# SPDX-License-Identifier: Apache-2.0
"""The kinds of rows that people rename, archive and delete. An import is a campaign that was measured elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from benchlab.campaigns.models import Campaign, Workload
from benchlab.topologies.models import Topology


@dataclass(frozen=True, slots=True)
class ManagedKind:
    """`text`: what can be said of it beside its name; "": nothing."""

    kind: str
    model: Any
    text: str = ""

    @property
    def editable_fields(self) -> tuple[str, ...]:
        return ("name", self.text) if self.text else ("name",)

    @property
    def plural(self) -> str:
        return str(self.model._meta.verbose_name_plural)

    def detail_url(self, pk: int) -> str:
        return reverse(f"{self.kind}-detail", args=[pk])


MANAGED_KINDS: Mapping[str, ManagedKind] = {
    noun.kind: noun
    for noun in (
        ManagedKind("campaign", Campaign, "question"),
        ManagedKind("topology", Topology, "description"),
        ManagedKind("workload", Workload),
    )
}


def managed_kind_of(row: Any) -> ManagedKind:
    return next(noun for noun in MANAGED_KINDS.values() if isinstance(row, noun.model))


@dataclass(frozen=True, slots=True)
class Use:
    """Something that stands in the way, and where it is."""

    says: str
    name: str = ""
    url: str = ""

    @property
    def sentence(self) -> str:
        """Sentence without a link, as the API returns it."""
        return f"{self.says} {self.name}".strip()


class Refused(Exception):
    """It cannot be done now; `why` says so in a sentence, `uses` what stands in the way."""

    def __init__(self, why: str, uses: tuple[Use, ...] = ()) -> None:
        super().__init__(why)
        self.why, self.uses = why, uses

    @property
    def full_message(self) -> str:
        return " ".join([self.why, *(f"{use.sentence}." for use in self.uses)])
