# SPDX-License-Identifier: Apache-2.0
"""Steps shared by lvm and lvm_cache: LVM's commands, physical volumes, and the teardown of a whole group.

LVM's own commands build. They do not take down: `lvconvert --uncache` and `lvremove` write dirty blocks back first or
refuse when a disk is missing. Device-mapper forgets the volumes at once, and then every disk is erased.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from agents.contracts import Need, Part, Step, Target, claims_of
from agents.facts.graph import Graph
from agents.facts.model import HostFacts
from agents.steps import scripts
from agents.steps.common import MIB, is_claimed, wipe
from agents.uuids import lvm_uuid_of

NEED_LVM = Need("lvm", {"debian": "lvm2", "rhel": "lvm2"}, ("lvm", "version"))
NEED_DMSETUP = Need(
    "dmsetup", {"debian": "dmsetup", "rhel": "device-mapper"}, ("dmsetup", "version")
)
# the pieces under which lvm tells lvm_cache what its group stands on
PVS = "pv"
LONG_S = 3600.0
# Kinds of block device that every LVM knows; others must be listed for it (article 000: Shannon's PCIe flash).
KNOWN_TYPES = {
    "sd",
    "ide0",
    "nvme",
    "blkext",
    "virtblk",
    "xvd",
    "mmc",
    "md",
    "mdp",
    "device-mapper",
    "loop",
    "nbd",
    "drbd",
    "ubd",
    "bcache",
    "cciss0",
    "dasd",
    "rbd",
    "zvol",
    "zd",
}


def lvm_version(facts: HostFacts) -> tuple[int, ...]:
    """Version of the host's LVM; the newest when the host names none."""
    match = re.search(r"(\d+)\.(\d+)\.(\d+)", facts.tools.get("lvm", ""))
    return tuple(map(int, match.groups())) if match else (99,)


def lvm_command(
    program: str, words: Sequence[str], target: Target, nodes: Iterable[str], facts: HostFacts
) -> tuple[str, ...]:
    """An LVM command that sees only `nodes`, whatever the host's filter or devices file allows.

    It leaves neither a backup of metadata in /etc/lvm nor a daemon that watches.
    """
    config = [
        f'activation{{monitoring=0 volume_list=["{target.name}"]}}',
        "backup{backup=0 archive=0}",
    ]
    devices = _types(target, facts)
    visible_nodes = tuple(dict.fromkeys(nodes))
    restrict: tuple[str, ...] = ("--devices", ",".join(visible_nodes))
    # it has a filter only, and a daemon that remembers
    if lvm_version(facts) < (2, 3, 12):
        accept = ",".join([f'"a({_literal(node)})"' for node in visible_nodes] + ['"r(.*)"'])
        devices += [f"filter=[{accept}]", f"global_filter=[{accept}]"]
        if lvm_version(facts) < (2, 3):
            config.append("global{use_lvmetad=0}")
        restrict = ()
    if devices:
        config.append(f"devices{{{' '.join(devices)}}}")
    return (program, "--yes", *restrict, "--config", " ".join(config), *words)


def _literal(node: str) -> str:
    return node.replace(".", "[.]")


def _types(target: Target, facts: HostFacts) -> list[str]:
    graph = Graph(facts)
    types = set()
    for claim in claims_of(target):
        device = graph.find_device(claim.node)
        driver = facts.drivers.get(device.majmin.partition(":")[0], "") if device else ""
        if driver and driver not in KNOWN_TYPES:
            types.add(driver)
    return ["types=[" + ",".join(f'"{name}",16' for name in sorted(types)) + "]"] if types else []


def make_pvs(
    target: Target, use: str, new: Sequence[Part], all_nodes: Iterable[str], facts: HostFacts
) -> list[Step]:
    """Physical volumes with UUIDs of the layout's own: one without a group is provably its, too."""
    claims, nodes = claims_of(target), tuple(all_nodes)
    steps = []
    for piece in new:
        words = (
            "--norestorefile",
            "--uuid",
            lvm_uuid_of(target.name, "pv", use, piece.node),
            "--dataalignment",
            f"{alignment(target)}b",
            piece.node,
        )
        steps.append(
            Step(
                lvm_command("pvcreate", words, target, nodes, facts),
                f"Make {piece.node} a physical volume",
                destroys=claims,
                undo=(wipe(piece.node, claims),),
                quiet=True,
            )
        )
    return steps


def alignment(target: Target) -> int:
    """Bytes that the first extent lies at a multiple of: whole stripes of what is below, else 1 MiB."""
    stripe = target.stripe_unit * target.stripe_count
    return stripe if target.volume and stripe and not stripe % 4096 else MIB


def extents(piece: Part, target: Target, extent_size: int) -> int:
    """Number of extents that the piece has behind LVM's own first MiB."""
    align = alignment(target)
    return max(piece.size - -(-MIB // align) * align, 0) // extent_size


def lvm_step(
    program: str,
    words: Sequence[str],
    purpose: str,
    target: Target,
    nodes: Iterable[str],
    facts: HostFacts,
    undo: tuple[Step, ...] = (),
) -> Step:
    """A step with an LVM command that writes."""
    argv = lvm_command(program, words, target, nodes, facts)
    return Step(argv, purpose, destroys=claims_of(target), undo=undo, timeout_s=LONG_S, quiet=True)


# What lsblk says nothing of: it goes up from the disks, and does not see what stood on one that was pulled out.
NOT_LISTED = "unknown"
# Volumes that lvm and lvm_cache make. What LVM makes of one has its name, an underscore or a hyphen, and more; its own
# are lvol0, lvol1, … Any other volume is a person's, though the group is ours: it stays, and so do the disks under it.
VOLUMES = ("data", "fast")


def remove_nodes(target: Target, facts: HostFacts, *volumes: str) -> list[Step]:
    """Device-mapper's view of our volumes of the group, the top ones first. The data is not written back.

    `volumes`: those that a layer makes beside VOLUMES.
    """
    names = _mapped(target, facts, (*VOLUMES, *volumes))
    if not names:
        return []
    purpose = "Remove the logical volumes from the kernel; cached data is dropped"
    argv = ("sh", "-c", scripts.DM_REMOVE, "remove", *names)
    return [Step(argv, purpose, destroys=claims_of(target), quiet=True)]


def _mapped(target: Target, facts: HostFacts, volumes: Iterable[str]) -> list[str]:
    """Our volumes of the group on these disks, the top ones first.

    Device-mapper's name is the group's, a hyphen, the volume's, in which a hyphen is doubled. A mapping of another kind
    is another layer's. A volume that lies on other disks too is the cache's to remove: it was told of them.
    """
    graph = Graph(facts)
    own_names = re.compile(rf"(?:{'|'.join(map(re.escape, volumes))}|lvol\d+)(?:[_-]\w+)*")
    ours = {d.name for claim in claims_of(target) if (d := is_claimed(claim, facts))}
    names = {name for name, _ in facts.mappings()}
    names |= {device.path.removeprefix("/dev/mapper/") for device in facts.devices}
    height: dict[str, int] = {}
    for name in names:
        group, _, volume = name.partition("-")
        if group != target.name or not own_names.fullmatch(volume):
            continue
        device = graph.find_device(f"/dev/mapper/{name}")
        under = graph.disks_under(device.name) if device else _by_table(name, graph)
        if under <= ours and (device is None or device.type in ("lvm", NOT_LISTED)):
            height[name] = len(graph.stack_under(device.name)) if device else 0
    return sorted(height, key=lambda name: (-height[name], name))


def _by_table(name: str, graph: Graph) -> set[str]:
    """The disks under a mapping that has no node: what its table names, known or not."""
    numbers = {device.majmin: device.name for device in graph.facts.devices}
    by_name = {
        w for row in device_table(name, graph.facts) for w in row if re.fullmatch(r"\d+:\d+", w)
    }
    return set().union(*(graph.disks_under(numbers.get(number, number)) for number in by_name))


def device_table(name: str, facts: HostFacts) -> list[list[str]]:
    """The words of each segment of a mapped device: start, length, type, …"""
    return [words for mapping, words in facts.mappings() if mapping == name]
