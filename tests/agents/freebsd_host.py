"""A FreeBSD host made up for tests: kern.geom.confxml in the kernel's format, and whole readings around it.

Nothing here was recorded. The format is that of sys/geom/geom_dump.c; names, sizes and pools are those of article 001.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from agents.facts import freebsd
from agents.facts.model import HostFacts
from agents.safety.guard import refusals
from tests.agents.made_up import spare, wiping

DISK = 3999688294400
KEPT = 524288


@dataclass
class MadeMesh:
    """Writes geoms as the kernel does; each provider also gets its DEV consumer."""

    classes: dict[str, list[str]] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)

    def ident(self, name: str) -> str:
        return f"0xfffff800{self.ids.setdefault(name, len(self.ids)):08x}"

    def geom(
        self,
        kind: str,
        name: str,
        on: Sequence[str] = (),
        gives: Sequence[tuple[str, int]] = (),
        mode: str = "r1w1e1",
        own: str = "",
        alias: str = "",
        given: str = "",
        **config: str,
    ) -> MadeMesh:
        uses = "".join(
            f'\t<consumer id="0xc{i}">\n\t  <geom ref="0x1"/>\n\t  <provider ref="{self.ident(below)}"/>\n'
            f"\t  <mode>{mode}</mode>\n\t</consumer>\n"
            for i, below in enumerate(on)
        )
        given += "".join(self.provider(n, size, alias, config) for n, size in gives)
        self.classes.setdefault(kind, []).append(
            f'    <geom id="0x1">\n      <class ref="0x2"/>\n      <name>{name}</name>\n      <rank>1</rank>\n'
            f"      <config>\n{own}      </config>\n{uses}{given}    </geom>\n"
        )
        for n, _ in gives:
            self.geom("DEV", n, on=[n], mode="r0w0e0")
        return self

    def provider(self, name: str, size: int, alias: str, config: dict[str, str]) -> str:
        inner = "".join(f"\t    <{key}>{value}</{key}>\n" for key, value in config.items())
        other = f"\t  <alias>{alias}</alias>\n" if alias else ""
        return (
            f'\t<provider id="{self.ident(name)}">\n\t  <geom ref="0x1"/>\n\t  <mode>r0w0e0</mode>\n'
            f"\t  <name>{name}</name>\n{other}\t  <mediasize>{size}</mediasize>\n\t  <sectorsize>512</sectorsize>\n"
            f"\t  <stripesize>0</stripesize>\n\t  <stripeoffset>0</stripeoffset>\n\t  <config>\n{inner}\t  </config>\n"
            "\t</provider>\n"
        )

    def disk(self, name: str, size: int = DISK, **config: str) -> MadeMesh:
        said = {"fwheads": "255", "rotationrate": "unknown", "ident": "", "descr": "", **config}
        return self.geom("DISK", name, gives=[(name, size)], **said)

    def table(self, on: str, scheme: str, parts: Sequence[tuple[str, int, str, str]]) -> MadeMesh:
        """Partitions: (name, size, type, label), one after another from 1 MiB on."""
        at, given = 1048576, ""
        for index, (name, size, kind, label) in enumerate(parts, start=1):
            config = {"index": str(index), "type": kind, "offset": str(at), "length": str(size)}
            given += self.provider(name, size, "", config | ({"label": label} if label else {}))
            at += size
        own = f"\t<scheme>{scheme}</scheme>\n\t<state>OK</state>\n"
        self.geom("PART", on, on=[on], own=own, given=given)
        for name, *_ in parts:
            self.geom("DEV", name, on=[name], mode="r0w0e0")
        return self

    def label(self, name: str, on: str, size: int) -> MadeMesh:
        return self.geom("LABEL", on, on=[on], gives=[(name, size)])

    def xml(self) -> str:
        classes = "".join(
            f'  <class id="0x3">\n    <name>{kind}</name>\n{"".join(geoms)}  </class>\n'
            for kind, geoms in self.classes.items()
        )
        return f"<mesh>\n{classes}</mesh>"


def article_001(disks: int = 12) -> MadeMesh:
    """FreeBSD 10 on ZFS: the root pool on mfid0p3, and mfid1 to mfid12 that nobody uses yet."""
    made = MadeMesh().disk("mfid0", 299439751168)
    made.table("mfid0", "GPT", [("mfid0p1", 524288, "freebsd-boot", "gptboot0"),
                                ("mfid0p2", 4294967296, "freebsd-swap", "swap0"),
                                ("mfid0p3", 295143735296, "freebsd-zfs", "zfs0")])  # fmt: skip
    made.label("gpt/swap0", "mfid0p2", 4294967296).label("gpt/zfs0", "mfid0p3", 295143735296)
    made.geom("SWAP", "swap", on=["gpt/swap0"], mode="r1w1e0")
    made.geom("ZFS::VDEV", "zfs::vdev", on=["mfid0p3"])
    for number in range(1, disks + 1):
        made.disk(f"mfid{number}")
    return made


MOUNTS = "zroot/ROOT/default\t/\t\t\tzfs\trw,noatime,nfsv4acls 0 0\ndevfs\t\t\t/dev\t\t\tdevfs\trw\t\t0 0"
SWAPS = """Device          1K-blocks     Used    Avail Capacity
/dev/gpt/swap0    4194304        0  4194304     0%"""
ZROOT = """  pool: zroot
 state: ONLINE
  scan: none requested
config:

\tNAME        STATE     READ WRITE CKSUM
\tzroot       ONLINE       0     0     0
\t  mfid0p3   ONLINE       0     0     0

errors: No known data errors
"""
SYSCTL = """kern.hostname: db1.example
kern.osrelease: 10.0-RELEASE
hw.machine: amd64
hw.model: Intel(R) Xeon(R) CPU E5-2630 0 @ 2.30GHz
hw.ncpu: 24
hw.physmem: 68635471872
kern.boottime: { sec = 1403796300, usec = 725700 } Thu Jun 26 15:25:00 2014"""

Said = str | bytes | tuple[str | bytes, int, str]


@cache
def ends(head: bytes = b"", tail: bytes = b"", size: int = DISK) -> tuple[bytes, bytes]:
    """The two windows as they are sent; `tail` is what the device ends with."""
    kept = min(KEPT, size)
    return (
        zlib.compress(head.ljust(kept, b"\0"), wbits=31),
        zlib.compress(tail.rjust(kept, b"\0"), wbits=31),
    )


def sections(made: MadeMesh | None = None, **changed: Said | None) -> dict[str, Said | None]:
    """Sections of article 001's host; `head__mfid1` is "head mfid1", None leaves one out."""
    made = made or article_001()
    found: dict[str, Said | None] = {
        "uid": "0",
        "system": "FreeBSD",
        "sysctl": SYSCTL,
        "boot_id": ("", 1, "sysctl: unknown oid 'kern.boot_id'"),
        "booted": "1403796312",
        "mounts": MOUNTS,
        "swaps": SWAPS,
        "geom": made.xml(),
        "zpool": ZROOT,
    }
    for name in made.ids:
        found[f"head {name}"], found[f"tail {name}"] = ends()
    return found | {name.replace("__", " "): said for name, said in changed.items()}


def printed(given: dict[str, Said | None]) -> bytes:
    """The reading, as hostside/facts_freebsd.sh prints it."""
    parts = [b"=n0 facts\n"]
    for name, said in given.items():
        if said is None:
            continue
        out, code, err = (said, 0, "") if isinstance(said, str | bytes) else said
        raw = out.encode() if isinstance(out, str) else out
        parts.append(b"=n0 begin %b\n%b\n=n0 end %d\n" % (name.encode(), raw, code))
        parts.append(b"%b\n=n0 done\n" % err.encode())
    return b"".join([*parts, b"=n0 complete\n"])


def read(made: MadeMesh | None = None, **changed: Said | None) -> HostFacts:
    """The host of article 001, or another, with changed sections."""
    return freebsd.parse_freebsd_facts(printed(sections(made, **changed)))


def why(facts: HostFacts, name: str, layout: str = "bl17") -> str:
    """All reasons against wiping a disk that a person marked spare."""
    device = facts.find_device(name)
    assert device is not None
    return "; ".join(refusals(wiping(device), facts, spare(device, boot=facts.boot_id), layout))


def disk(**config: Any) -> MadeMesh:
    """Article 001's host with one blank disk more."""
    return article_001(0).disk("ada1", **config)
