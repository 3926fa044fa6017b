# SPDX-License-Identifier: Apache-2.0
"""Health check of a built layout at one moment: one cheap command, and its output.

A layer hides those below it from a whole look (agents.plans.stack.verify), and a mirror that lost a disk serves on as
if nothing were: this asks every layer's own kernel driver what it knows, by what is in memory there.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files

from agents.contracts import Shell
from agents.facts import md, stacks, sysfs, tunables, zfs
from agents.facts.model import MdArray, Mount, Zpool
from agents.facts.sections import Section, ask, bad_facts, split, text

HOSTSIDE = files("agents.hostside")
SCRIPT = "".join(HOSTSIDE.joinpath(name).read_text() for name in ("sections.sh", "health.sh"))
PROC = {"/proc/mdstat": "mdstat", "/proc/self/mountinfo": "mountinfo"}
BOOT = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class Complaint:
    """A line of the kernel's log about an I/O error."""

    # on the log's own clock
    at: float
    says: str


@dataclass(frozen=True, slots=True)
class Health:
    # "": this system has none (FreeBSD)
    boot_id: str = ""
    # Node -> kernel name; absent: it is gone
    names: Mapping[str, str] = field(default_factory=dict)
    # Kernel name -> "size", "ro", "device/state", "bcache/state", …
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    holders: Mapping[str, frozenset[str]] = field(default_factory=dict)
    arrays: tuple[MdArray, ...] = ()
    # Name in /dev/mapper -> words of its status, of all its segments in a row
    mapped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # with what ails them
    pools: Mapping[str, Zpool] = field(default_factory=dict)
    # pools that are healthy
    sound: frozenset[str] = frozenset()
    # of a pool that is not: in its own words
    said: str = ""
    # None: not known here (FreeBSD)
    mounts: tuple[Mount, ...] | None = None
    # btrfs's errors, those above 0
    counters: Mapping[str, int] = field(default_factory=dict)
    log: tuple[Complaint, ...] = ()
    # Lines of `dmsetup table`
    tables: tuple[str, ...] = ()
    # Of pools and of datasets, by name: those that can be set
    pool_properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    dataset_properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sysctls: Mapping[str, str] = field(default_factory=dict)
    governors: Mapping[str, str] = field(default_factory=dict)
    # True: no resync or recovery is to go on, so that one is a fault too
    at_rest: bool = False

    def name(self, node: str) -> str:
        """Its kernel name; the node itself when it is gone."""
        return self.names.get(node, node)

    def complaints(self, nodes: Iterable[str], after: float) -> list[str]:
        """The log's lines about these nodes and all that stands on them that came later."""
        ours, todo = set[str](), [self.name(node).removeprefix("/dev/") for node in nodes]
        while todo:
            name = todo.pop()
            todo += self.holders.get(name, frozenset()) - ours
            ours.add(name)
        words = "|".join(_or_partition(name) for name in sorted(ours))
        about = re.compile(rf"(?<![\w-])(?:{words})(?![\w-])")
        return [one.says for one in self.log if one.at > after and about.search(one.says)]

    @property
    def log_end(self) -> float:
        return max((one.at for one in self.log), default=0.0)


def _or_partition(name: str) -> str:
    return re.escape(name) + (r"(?:p\d+)?" if name[-1:].isdigit() else r"\d*")


def read(shell: Shell, nodes: Iterable[str], mount: str = "", pool: str = "") -> Health:
    """One command. Raises AgentError (BAD_FACTS, or the connection's)."""
    nonce = secrets.token_hex(8)
    argv = ("sh", "-c", SCRIPT, "facts", nonce, mount, pool, *nodes)
    try:
        return parse(ask(shell, argv, 60.0), pool)
    except (ValueError, LookupError, TypeError) as error:
        raise bad_facts(f"{type(error).__name__}: {error}") from error


def parse(output: bytes, pool: str = "") -> Health:
    """Raises AgentError BAD_FACTS naming section and line."""
    sections = split(output)
    for name in ("names", "files", "tree"):
        if name not in sections:
            raise bad_facts(f"the health check has no section {name!r}")
    values = sysfs.attributes(sections["files"])
    rest = values.pop("", {})
    proc = {
        name: Section(name, 0, rest[path].encode(), "")
        for path, name in PROC.items()
        if path in rest
    }
    pools, sound, said = _pools(sections.get("zpool"), pool)
    return Health(
        boot_id=rest.get(BOOT, ""),
        names=dict(_names(sections["names"])),
        values=values,
        holders={n: frozenset(found) for n, found in sysfs.tree(sections["tree"]).holders.items()},
        arrays=md.arrays(proc["mdstat"]) if "mdstat" in proc else (),
        mapped=_mapped(sections.get("dmstatus")),
        pools=pools,
        sound=sound,
        said=said,
        mounts=tuple(stacks.mounts(proc["mountinfo"])) if "mountinfo" in proc else None,
        counters=dict(_counters(sections.get("btrfs"))),
        log=tuple(_complaints(sections.get("log"))),
        tables=_tables(sections.get("dmsetup")),
        pool_properties=zfs.settable(sections.get("zpool_get")),
        dataset_properties=zfs.settable(sections.get("zfs_get")),
        sysctls=tunables.sysctls(rest),
        governors=tunables.governors(rest),
    )


def _names(section: Section) -> Iterator[tuple[str, str]]:
    for number, line in section.lines():
        node, space, name = text(line).partition(" ")
        if not space:
            raise section.bad(number, line, "not a node and its name")
        yield node, name


def _mapped(section: Section | None) -> dict[str, tuple[str, ...]]:
    return {} if section is None or section.exit_code else mapped(text(section.stdout))


def mapped(printed: str) -> dict[str, tuple[str, ...]]:
    """Words of `dmsetup status` by name: lines "NAME: start length type …", one for each segment."""
    found: dict[str, tuple[str, ...]] = {}
    for line in printed.splitlines():
        name, colon, status = line.partition(": ")
        if colon:
            found[name] = (*found.get(name, ()), *status.split())
    return found


def arrays(printed: str) -> tuple[MdArray, ...]:
    """Arrays by the text of /proc/mdstat. Raises AgentError BAD_FACTS."""
    return md.arrays(Section("mdstat", 0, printed.encode(), ""))


def with_pool(health: Health, name: str, state: str) -> Health:
    """The same with one pool in that state, as its kstat shows it; which device it lacks is not told there."""
    if name in health.pools and health.pools[name].state == state:
        # in more words
        return health
    if state == "ONLINE":
        return replace(health, sound=health.sound | {name})
    pools = {**health.pools, name: Zpool(name, state)}
    return replace(health, sound=health.sound - {name}, pools=pools)


def _tables(section: Section | None) -> tuple[str, ...]:
    return () if section is None or section.exit_code else tuple(stacks.dm_tables(section))


def _pools(section: Section | None, pool: str) -> tuple[dict[str, Zpool], frozenset[str], str]:
    """Of `zpool status -x`: one line when all is well, else the whole status, with a sentence that says what is not."""
    if section is None or section.exit_code:
        return {}, frozenset(), section.failure if section else ""
    printed = text(section.stdout)
    if f"pool '{pool}' is healthy" in printed:
        return {}, frozenset([pool]), ""
    found = re.search(r"^status: (.*(?:\n\t.*)*)", printed, re.M)
    said = " ".join(found[1].split()) if found else ""
    return {one.name: one for one in zfs.status(section)}, frozenset(), said


def _counters(section: Section | None) -> Iterator[tuple[str, int]]:
    """[/dev/sdb].write_io_errs    0"""
    if section is None or section.exit_code:
        return
    for _, line in section.lines():
        match = re.fullmatch(r"\[(.+)\]\.(\w+)\s+(\d+)", text(line).strip())
        if match and int(match[3]):
            yield f"{match[1]}: {match[2]}", int(match[3])


def _complaints(section: Section | None) -> Iterator[Complaint]:
    """Lines "[  12.345678] text"; one without its time (of another system) cannot be placed."""
    for _, line in section.lines() if section else ():
        if match := re.match(r"(?:<\d+>)?\[\s*(\d+\.\d+)\](?:\[[^\]]*\])? ?(.*)", text(line)):
            yield Complaint(float(match[1]), match[2])
