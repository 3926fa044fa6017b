# SPDX-License-Identifier: Apache-2.0
"""A file system on the volume below: xfs, ext4 or btrfs, mounted at /mnt/benchlab/<layout>.

Sources: mkfs.xfs(8), mke2fs(8), mkfs.btrfs(8). The smallest sizes are what those programs accept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agents.contracts import Claim, Need, OptionsError, Plan, PlanError, Step, Target, Use
from agents.facts.graph import Graph
from agents.facts.health import Health
from agents.facts.model import HostFacts
from agents.options import option
from agents.steps import fs_words, scripts
from agents.steps.common import mount_point, settle, volume_disks, wipe

LABEL = "File system"
NEEDS = (
    Need("mkfs.xfs", {"debian": "xfsprogs", "rhel": "xfsprogs"}, ("mkfs.xfs", "-V")),
    Need("mkfs.ext4", {"debian": "e2fsprogs", "rhel": "e2fsprogs"}, ("mkfs.ext4", "-V")),
    Need("mkfs.btrfs", {"debian": "btrfs-progs", "rhel": "btrfs-progs"}),
)
USES: dict[str, Use] = {}
PROVIDES = "mount"
REQUIRES = "volume"
MIB = 1 << 20
EXT4_BLOCK = 4096
SMALLEST = {"xfs": 300 * MIB, "ext4": 16 * MIB, "btrfs": 114_294_784}
# Leave old blocks as they are; ext4: see _ext4
NO_DISCARD_OPTIONS = {
    "xfs": ("-K",),
    "btrfs": ("-K",),
    "ext4": (),
}
# The kernel refuses an option it does not know, but shows only those that differ from its defaults.
ALWAYS_SHOWN = {"noatime", "nodiratime", "nodev", "nosuid", "noexec", "sync", "dirsync", "lazytime"}


@dataclass(frozen=True, slots=True)
class Options:
    type: str = option("xfs", "File system", choices=("xfs", "ext4", "btrfs"))
    mkfs_options: tuple[str, ...] = option((), "Further mkfs arguments, such as -m, reflink=0")
    mount_options: tuple[str, ...] = option((), "Mount options, such as noatime")
    nodiscard: bool = option(
        False, "Keep mkfs from discarding every block first (slow on some stacks)"
    )

    def __post_init__(self) -> None:
        for name, refused in (
            ("mkfs_options", fs_words.refused_mkfs(self.type, self.mkfs_options)),
            ("mount_options", fs_words.refused_mount(self.mount_options)),
        ):
            if refused:
                raise OptionsError(f"{name}: {refused!r} cannot be set by a layout")


def required_programs(options: Options) -> tuple[Need, ...]:
    return tuple(need for need in NEEDS if need.program == f"mkfs.{options.type}")


def plan(options: Options, target: Target, facts: HostFacts) -> Plan:
    """mkfs with the layout's label, then mount. Raises PlanError for a volume that is too small."""
    claims, mount = volume_disks(target), mount_point(target)
    if target.size < SMALLEST[options.type]:
        raise PlanError(
            f"{options.type} needs at least {SMALLEST[options.type] // MIB} MiB,"
            f" {target.volume} has {target.size // MIB} MiB"
        )
    argv, notes = _mkfs(options.type, target, options.mkfs_options, options.nodiscard)
    steps = (
        Step(
            argv,
            f"Make a {options.type} file system on {target.volume}",
            destroys=claims,
            undo=(wipe(target.volume, claims),),
            timeout_s=3600,
        ),
        settle(),
        Step(
            ("mkdir", "-p", mount),
            f"Make {mount}",
            undo=(Step(("rmdir", mount), f"Remove {mount}"),),
        ),
        Step(
            ("mount", "-t", options.type, *_mount_words(options), target.volume, mount),
            f"Mount it at {mount}",
            destroys=claims,
            undo=(Step(("umount", mount), f"Unmount {mount}"),),
        ),
    )
    return Plan(steps, replace(target, mount=mount, notes=(*target.notes, *notes)))


def _mkfs(
    kind: str, target: Target, more: Sequence[str], nodiscard: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """argv with the layout's name as label, and notes worth recording."""
    geometry, notes = _aligned(kind, target)
    start = {"xfs": ("-q", "-f"), "ext4": ("-q", "-F"), "btrfs": ("-f",)}[kind]
    no_discard = NO_DISCARD_OPTIONS[kind] if nodiscard else ()
    if kind == "ext4":
        geometry, more = _ext4(geometry, more, nodiscard)
    argv = (f"mkfs.{kind}", *start, "-L", target.name, *geometry, *no_discard, *more, target.volume)
    return argv, notes


def _aligned(kind: str, target: Target) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Align to the stripe below, and say so. btrfs has no such option."""
    unit, count = target.stripe_unit, target.stripe_count
    if count < 2 or unit <= 0 or kind == "btrfs":
        return (), ()
    if unit % EXT4_BLOCK:
        return (), (f"a stripe unit of {unit} B is not a multiple of {EXT4_BLOCK} B: not aligned",)
    blocks = unit // EXT4_BLOCK
    words = {
        "xfs": ("-d", f"su={unit},sw={count}"),
        "ext4": ("-E", f"stride={blocks},stripe_width={blocks * count}"),
    }[kind]
    return words, (f"{kind} aligned to the layer below: {count} stripes of {unit} B ({words[1]})",)


def _ext4(
    geometry: tuple[str, ...], more: Sequence[str], nodiscard: bool
) -> tuple[tuple[str, ...], Sequence[str]]:
    """All extended options in one -E: of several mke2fs takes only the last, and the alignment would be lost."""
    extended, rest = list(geometry[1:]), []
    words = iter(more)
    for word in words:
        if word.startswith("-E"):
            extended.append(word[2:] or next(words, ""))
        else:
            rest.append(word)
    if nodiscard:
        extended.append("nodiscard")
    return (("-E", ",".join(filter(None, extended))) if extended else ()), rest


def _mount_words(options: Options) -> tuple[str, ...]:
    return ("-o", ",".join(options.mount_options)) if options.mount_options else ()


def plan_expansion(options: Options, target: Target, facts: HostFacts) -> Plan:
    """Fill the volume that has become larger, while mounted. Its alignment stays as mkfs made it."""
    claims, mount = volume_disks(target), mount_point(target)
    argv = {
        "xfs": ("xfs_growfs", mount),
        "ext4": ("resize2fs", target.volume),
        "btrfs": ("btrfs", "filesystem", "resize", "max", mount),
    }[options.type]
    step = Step(
        argv, f"Grow {options.type} to fill {target.volume}", destroys=claims, timeout_s=3600
    )
    return Plan((step,), replace(target, mount=mount))


def teardown(options: Options, target: Target, facts: HostFacts) -> list[Step]:
    """Unmount (never lazily: that would hide who still writes), remove the mount point, erase the label."""
    claims, mount = volume_disks(target), mount_point(target)
    steps = [Step(("umount", mount), f"Unmount {mount}")] * sum(
        m.target == mount for m in facts.mounts
    )
    steps.append(Step(("sh", "-c", scripts.REMOVE_EMPTY, "remove", mount), f"Remove {mount}"))
    if _must_wipe(target, claims, facts):
        steps.append(wipe(target.volume, claims))
        # udev reads it anew, and what it reads is in use. LVM's volumes are removed again and again until that works.
        device = Graph(facts).find_device(target.volume)
        steps += [] if device and device.type == "lvm" else [settle()]
    return steps


def _must_wipe(target: Target, claims: tuple[Claim, ...], facts: HostFacts) -> bool:
    """True if the volume exists, still lies on our disks, and is not known to be blank."""
    graph = Graph(facts)
    device = graph.find_device(target.volume)
    if device is None:
        return False
    ours = {d.name for c in claims if (d := graph.find_device(c.node)) and d.identity == c.identity}
    under = graph.disks_under(device.name)
    if not under or not under <= ours:
        return False
    return not device.signatures_known or bool(device.signatures)


def health_faults(options: Options, target: Target, health: Health) -> list[str]:
    """Mounted no more, made read-only by the kernel (which a mount says in its superblock's options), or with errors
    that btrfs counted.
    """
    wrong = [f"{what} is {count}" for what, count in health.counters.items()]
    if health.mounts is None:
        return wrong
    mount = mount_point(target)
    mounts = [m for m in health.mounts if m.target == mount]
    if not mounts:
        return [f"{mount} is not mounted any more", *wrong]
    mount_options = {word for row in mounts for word in row.options.split(",")}
    for word in sorted(
        mount_options & {"ro", "emergency_ro", "shutdown"} - set(options.mount_options)
    ):
        wrong.append(f"{mount} has become {'read-only' if word == 'ro' else word}")
    return wrong


def verify(options: Options, target: Target, facts: HostFacts) -> list[str]:
    """Check mount point, device, type, options and our label."""
    mount = mount_point(target)
    mounts = [m for m in facts.mounts if m.target == mount]
    if len(mounts) != 1:
        return [f"{mount} is mounted {len(mounts)} times, not once"]
    wrong = []
    if mounts[0].fstype != options.type:
        wrong.append(f"{mount} is {mounts[0].fstype}, not {options.type}")
    graph = Graph(facts)
    device, source = graph.find_device(target.volume), graph.find_device(mounts[0].source)
    if device is None or source != device:
        return [*wrong, f"{mount} is {mounts[0].source}, not {target.volume}"]
    if not any(s.type == options.type and s.label == target.name for s in device.signatures):
        wrong.append(f"{target.volume} has no {options.type} signature labelled {target.name}")
    mount_options = set(mounts[0].options.split(","))
    return wrong + [
        f"{mount}: mount option {word!r} was not applied"
        for word in options.mount_options
        if word in ALWAYS_SHOWN and word not in mount_options
    ]
