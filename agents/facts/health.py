# SPDX-License-Identifier: Apache-2.0
"""Health check of a built layout at one moment: one cheap command, and its output.

A layer hides those below it from a whole look (agents.plans.stack.verify_stack), and a mirror that lost a disk serves
on as if nothing were: this asks every layer's own kernel driver what it knows, by what is in memory there.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files

from agents.contracts import Shell
from agents.facts import stacks, sysfs, volumes
from agents.facts.model import MdArray, Mount, Zpool
from agents.facts.sections import (
    EMPTY,
    Section,
    bad_facts,
    decode_text,
    run_facts_script,
    split_sections,
    succeeded,
    text_section,
)

HOSTSIDE = files("agents.hostside")
SCRIPT = "".join(HOSTSIDE.joinpath(name).read_text() for name in ("sections.sh", "health.sh"))
BOOT = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class KernelError:
    """A line of the kernel's log about an I/O error."""

    # on the log's own clock
    at: float
    message: str


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
    pool_message: str = ""
    # None: not known here (FreeBSD)
    mounts: tuple[Mount, ...] | None = None
    # btrfs's errors, those above 0
    counters: Mapping[str, int] = field(default_factory=dict)
    log: tuple[KernelError, ...] = ()
    # Lines of `dmsetup table`
    tables: tuple[str, ...] = ()
    # Of pools and of datasets, by name: those that can be set
    pool_properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    dataset_properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sysctls: Mapping[str, str] = field(default_factory=dict)
    governors: Mapping[str, str] = field(default_factory=dict)
    # True: no resync or recovery is to go on, so that one is a fault too
    at_rest: bool = False

    def kernel_name(self, node: str) -> str:
        """Kernel name of the node; the node itself if it is gone."""
        return self.names.get(node, node)

    def kernel_errors(self, nodes: Iterable[str], after: float) -> list[str]:
        """The log's lines about these nodes and all that stands on them that came later."""
        ours, todo = set[str](), [self.kernel_name(node).removeprefix("/dev/") for node in nodes]
        while todo:
            name = todo.pop()
            todo += self.holders.get(name, frozenset()) - ours
            ours.add(name)
        # each or a partition of it
        words = "|".join(
            re.escape(name) + (r"(?:p\d+)?" if name[-1:].isdigit() else r"\d*")
            for name in sorted(ours)
        )
        about = re.compile(rf"(?<![\w-])(?:{words})(?![\w-])")
        return [
            error.message for error in self.log if error.at > after and about.search(error.message)
        ]

    @property
    def log_end(self) -> float:
        return max((error.at for error in self.log), default=0.0)


def read_health(shell: Shell, nodes: Iterable[str], mount: str = "", pool: str = "") -> Health:
    """Read the health with one command. Raises AgentError (BAD_FACTS, or the connection's)."""
    nonce = secrets.token_hex(8)
    argv = ("sh", "-c", SCRIPT, "facts", nonce, mount, pool, *nodes)
    try:
        return parse_health(run_facts_script(shell, argv, 60.0), pool)
    except (ValueError, LookupError, TypeError) as error:
        raise bad_facts(f"{type(error).__name__}: {error}") from error


def parse_health(output: bytes, pool: str = "") -> Health:
    """Parse a health check. Raises AgentError BAD_FACTS naming section and line."""
    sections = split_sections(output)
    for name in ("names", "files", "tree"):
        if name not in sections:
            raise bad_facts(f"the health check has no section {name!r}")
    values = sysfs.parse_attributes(sections["files"])
    rest = values.pop("", {})
    mountinfo = rest.get("/proc/self/mountinfo")
    pools, sound, pool_message = _parse_pools(sections.get("zpool", EMPTY), pool)
    return Health(
        boot_id=rest.get(BOOT, ""),
        names=dict(_parse_names(sections["names"])),
        values=values,
        holders={
            n: frozenset(names) for n, names in sysfs.parse_tree(sections["tree"]).holders.items()
        },
        arrays=parse_mdstat_text(rest.get("/proc/mdstat", "")),
        mapped=parse_dm_status(decode_text(succeeded(sections, "dmstatus").stdout)),
        pools=pools,
        sound=sound,
        pool_message=pool_message,
        mounts=None
        if mountinfo is None
        else tuple(stacks.parse_mountinfo(text_section("mountinfo", mountinfo))),
        counters=dict(_parse_btrfs_errors(succeeded(sections, "btrfs"))),
        log=tuple(_parse_kernel_log(sections.get("log", EMPTY))),
        tables=tuple(stacks.parse_dm_tables(succeeded(sections, "dmsetup"))),
        pool_properties=volumes.settable_properties(succeeded(sections, "zpool_get")),
        dataset_properties=volumes.settable_properties(succeeded(sections, "zfs_get")),
        sysctls=sysfs.sysctl_values(rest),
        governors=sysfs.cpu_governors(rest),
    )


def _parse_names(section: Section) -> Iterator[tuple[str, str]]:
    for number, line in section.numbered_lines():
        node, space, name = decode_text(line).partition(" ")
        if not space:
            raise section.error_at(number, line, "not a node and its name")
        yield node, name


def parse_dm_status(printed: str) -> dict[str, tuple[str, ...]]:
    """Words of `dmsetup status` by name: lines "NAME: start length type …", one for each segment."""
    words_by_name: dict[str, tuple[str, ...]] = {}
    for line in printed.splitlines():
        name, colon, status = line.partition(": ")
        if colon:
            words_by_name[name] = (*words_by_name.get(name, ()), *status.split())
    return words_by_name


def parse_mdstat_text(printed: str) -> tuple[MdArray, ...]:
    """Arrays by the text of /proc/mdstat. Raises AgentError BAD_FACTS."""
    return volumes.parse_mdstat(text_section("mdstat", printed))


def with_pool_state(health: Health, name: str, state: str) -> Health:
    """The health with one pool in the state that its kstat shows, which does not name a missing device."""
    if name in health.pools and health.pools[name].state == state:
        # in more words
        return health
    if state == "ONLINE":
        return replace(health, sound=health.sound | {name})
    pools = {**health.pools, name: Zpool(name, state)}
    return replace(health, sound=health.sound - {name}, pools=pools)


def _parse_pools(section: Section, pool: str) -> tuple[dict[str, Zpool], frozenset[str], str]:
    """Parse `zpool status -x`: one line for a healthy pool, else the whole status and a sentence on the fault."""
    if section.exit_code:
        return {}, frozenset(), section.failure
    printed = decode_text(section.stdout)
    if f"pool '{pool}' is healthy" in printed:
        return {}, frozenset([pool]), ""
    match = re.search(r"^status: (.*(?:\n\t.*)*)", printed, re.M)
    message = " ".join(match[1].split()) if match else ""
    return {row.name: row for row in volumes.parse_status(section)}, frozenset(), message


def _parse_btrfs_errors(section: Section) -> Iterator[tuple[str, int]]:
    """[/dev/sdb].write_io_errs    0"""
    for _, line in section.numbered_lines():
        match = re.fullmatch(r"\[(.+)\]\.(\w+)\s+(\d+)", decode_text(line).strip())
        if match and int(match[3]):
            yield f"{match[1]}: {match[2]}", int(match[3])


def _parse_kernel_log(section: Section) -> Iterator[KernelError]:
    """Lines "[  12.345678] text"; one without its time (of another system) cannot be placed."""
    for _, line in section.numbered_lines():
        if match := re.match(
            r"(?:<\d+>)?\[\s*(\d+\.\d+)\](?:\[[^\]]*\])? ?(.*)", decode_text(line)
        ):
            yield KernelError(float(match[1]), match[2])
