# SPDX-License-Identifier: Apache-2.0
"""FreeBSD's GEOM, as `sysctl -n kern.geom.confxml` shows it: who provides what, who consumes it. Pure.

A geom of a class (DISK, PART, MIRROR, …) consumes providers and gives new ones. A LABEL's provider is another name of
what it lies on. Every node in /dev is itself a consumer (class DEV), opened when a program opens the node.
"""

from __future__ import annotations

import re

# see _geoms
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from agents.facts.sections import Section, bad_facts


@dataclass(frozen=True, slots=True)
class Provider:
    """A device that can be read and written: /dev/NAME."""

    name: str
    # its geom's class: "DISK", "PART", "MIRROR"
    kind: str
    # its geom's name
    geom: str
    # bytes
    size: int
    # bytes
    sector: int
    # bytes; of a disk its physical sector
    stripe: int
    config: Mapping[str, str]
    aliases: tuple[str, ...] = ()
    # names of providers that its geom consumes
    below: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Consumer:
    """A user of a provider."""

    # name
    provider: str
    kind: str
    geom: str
    # "r1w1e0": opened how often for reading, writing, exclusively
    mode: str

    @property
    def is_writer(self) -> bool:
        return re.search(r"w0(?!\d)", self.mode) is None


@dataclass(frozen=True, slots=True)
class Mesh:
    """Everything, with labels resolved: no provider here is a LABEL's, `names` leads there from each."""

    providers: Mapping[str, Provider]
    consumers: tuple[Consumer, ...]
    # any name, label or alias -> name of the provider
    names: Mapping[str, str]
    # provider -> partition scheme on it
    schemes: Mapping[str, str] = field(default_factory=dict)


def parse_geom(section: Section) -> Mesh:
    """Parse the mesh. Raises AgentError BAD_FACTS."""
    geoms = list(_geoms(section))
    owners = {ident: geom for geom in geoms for ident in geom.provides}

    def resolve(ident: str, depth: int = 0) -> Provider:
        """The provider under any labels."""
        geom = owners.get(ident)
        if geom is None or depth > len(geoms):
            raise bad_facts(f"geom: {ident} is referenced but not defined")
        provider = geom.provides[ident]
        if geom.kind != "LABEL":
            return provider
        if len(geom.consumes) != 1:
            raise bad_facts(
                f"geom: the label {provider.name} lies on {len(geom.consumes)} providers"
            )
        return resolve(geom.consumes[0][0], depth + 1)

    names = {
        name: resolve(ident).name
        for ident, geom in owners.items()
        for name in (geom.provides[ident].name, *geom.provides[ident].aliases)
    }
    unlabelled = [geom for geom in geoms if geom.kind != "LABEL"]
    consumers = tuple(
        Consumer(resolve(ident).name, geom.kind, geom.name, mode)
        for geom in unlabelled
        for ident, mode in geom.consumes
    )
    providers: dict[str, Provider] = {}
    for geom in unlabelled:
        below = tuple(dict.fromkeys(resolve(ident).name for ident, _ in geom.consumes))
        providers |= {p.name: replace(p, below=below) for p in geom.provides.values()}
    schemes = {
        resolve(ident).name: geom.config["scheme"]
        for geom in geoms
        if geom.kind == "PART" and "scheme" in geom.config
        for ident, _ in geom.consumes
    }
    return Mesh(providers, consumers, names, schemes)


@dataclass(frozen=True, slots=True)
class _Geom:
    kind: str
    name: str
    config: Mapping[str, str]
    # id of a provider, mode
    consumes: tuple[tuple[str, str], ...]
    # by id
    provides: Mapping[str, Provider]


def _geoms(section: Section) -> Iterator[_Geom]:
    raw = section.stdout.strip()
    # the kernel writes no such thing, and entities could fill the memory
    if b"<!" in raw:
        raise bad_facts("geom: a declaration in kern.geom.confxml")
    try:
        mesh = ET.fromstring(raw)  # noqa: S314  # without declarations, so without entities
    except ET.ParseError as error:
        raise bad_facts(f"geom: kern.geom.confxml is not XML: {error}") from None
    for kind in mesh.findall("class"):
        for geom in kind.findall("geom"):
            yield _geom(_required_text(kind, "name"), geom)


def _geom(kind: str, geom: ET.Element) -> _Geom:
    name = _required_text(geom, "name")
    uses = [
        (below.get("ref", ""), _required_text(consumer, "mode"))
        for consumer in geom.findall("consumer")
        if (below := consumer.find("provider")) is not None
    ]
    gives = {p.get("id", ""): _provider(kind, name, p) for p in geom.findall("provider")}
    return _Geom(kind, name, _config(geom), tuple(uses), gives)


def _provider(kind: str, geom: str, element: ET.Element) -> Provider:
    return Provider(
        name=_required_text(element, "name"),
        kind=kind,
        geom=geom,
        size=_integer_text(element, "mediasize"),
        sector=_integer_text(element, "sectorsize"),
        stripe=_integer_text(element, "stripesize"),
        config=_config(element),
        aliases=tuple((alias.text or "").strip() for alias in element.findall("alias")),
    )


def _config(element: ET.Element) -> dict[str, str]:
    config = element.find("config")
    return {} if config is None else {e.tag: (e.text or "").strip() for e in config}


def _required_text(element: ET.Element, tag: str) -> str:
    content = element.findtext(tag)
    if not content:
        raise bad_facts(f"geom: a {element.tag} without {tag}")
    return content.strip()


def _integer_text(element: ET.Element, tag: str) -> int:
    digits = (element.findtext(tag) or "0").strip()
    if not digits.isdigit():
        raise bad_facts(
            f"geom: {tag} of {_required_text(element, 'name')} is {digits[:80]!r}, not a number"
        )
    return int(digits)
