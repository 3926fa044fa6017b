"""A host that carries out a plan's steps and its teardown: what devices, mounts and superblocks there are then.

It knows what the programs of our layers do. What another program makes is what its words name by the layout's name, and
it is gone when a command of the teardown names it; a UUID of the layout's is a superblock on the devices beside it. So
a new layer is seen to forget what it made, whatever it calls.
A command that a kernel would refuse (the device is in use, or is not there) fails here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from agents.contracts import Claim, Step
from agents.facts.graph import has_layout_name, is_own_path
from agents.facts.model import (
    Bcache,
    BlockDevice,
    Dataset,
    HostFacts,
    MdArray,
    MdMember,
    Mount,
    Signature,
    Zpool,
)
from agents.safety.guard import only_looks
from agents.uuids import is_uuid_of
from tests.agents import made_up
from tests.agents.named_steps import NAMES

MIB = 1 << 20
NOTHING_OF_OURS = {"modprobe", "xfs_growfs", "resize2fs", "btrfs", "udevadm", "lvextend", "pvresize"}  # fmt: skip
SETTINGS = {"queue_write", "sysctl_set", "sysctl_back", "govern", "zvol_wait"}


class Refused(Exception):
    """Refusal of the host of a command that it cannot run."""


@dataclass
class Machine:
    layout: str
    disks: InitVar[Mapping[str, BlockDevice]]
    mounts: list[Mount] = field(default_factory=list)
    directories: set[str] = field(default_factory=set)
    owners: dict[str, str] = field(default_factory=dict)  # as HostFacts.members
    pools: dict[str, list[str]] = field(default_factory=dict)  # name -> kernel names
    datasets: dict[str, str] = field(default_factory=dict)  # name -> where it is mounted
    hidden: dict[str, str] = field(default_factory=dict)  # what has no node yet -> on what
    sets: dict[str, Bcache] = field(default_factory=dict)  # as HostFacts.bcache
    number: int = 0

    def __post_init__(self, disks: Mapping[str, BlockDevice]) -> None:
        self.devices = dict(disks)

    def facts(self, **more: Any) -> HostFacts:
        arrays = [d for d in self.devices.values() if d.name.startswith("md")]
        mapped = [d for d in self.devices.values() if d.path.startswith("/dev/mapper/")]
        groups = [name for name, owner in self.owners.items() if owner.startswith("lvm")]
        return replace(
            made_up.host(*map(self._mounted, self.devices.values()), **more),
            mounts=(*made_up.host().mounts, *self.mounts),
            members=dict(self.owners),
            md_members=tuple(name for array in arrays for name in array.parents),
            md_arrays=tuple(_array(array) for array in arrays),
            bcache=dict(self.sets),
            zpools=tuple(Zpool(name, "ONLINE") for name in self.pools),
            zpool_members=tuple(name for names in self.pools.values() for name in names),
            datasets=tuple(Dataset(name) for name in self.datasets),
            lvm_pvs=tuple(self.devices[name].path for name in groups),
            dm_tables=tuple(f"{PurePosixPath(d.path).name}: 0 8 linear 8:16 0" for d in mapped),
        )

    def _mounted(self, device: BlockDevice) -> BlockDevice:
        paths = (device.path, *device.links)
        return replace(device, mounts=tuple(m.target for m in self.mounts if m.source in paths))

    def left(self) -> list[str]:
        """All that carries the layout's name, or is on its disks still."""
        signed = [(d.path, s.type) for d in self.devices.values() for s in d.signatures]
        return [
            *(device.path for device in self.devices.values() if device.parents),
            *(f"{path} has a {kind} signature" for path, kind in signed),
            *(mount.target for mount in self.mounts),
            *self.directories, *self.pools, *self.datasets, *self.owners.values(), *self.sets,
        ]  # fmt: skip

    def run(self, step: Step, down: bool = False) -> None:
        """Raises Refused."""
        words = [str(word) for word in step.argv]
        if only_looks(step.argv) or words[0] in NOTHING_OF_OURS:
            return
        name = NAMES.get(words[2], "sh") if words[0] == "sh" else words[0]
        if name in SETTINGS:
            return
        called = "_" + name.replace("-", "_")
        does: Callable[[list[str]], None] | None = getattr(self, called, None)
        if name.startswith("mkfs."):
            self.sign(words[-1], name.removeprefix("mkfs."), self.layout)
        elif does is not None:
            does(words[4:] if words[0] == "sh" else words[1:])
        else:
            self._unknown(words, step.destroys, down)

    def _unknown(self, words: Sequence[str], claims: Sequence[Claim], down: bool) -> None:
        """A program that nobody told us of. A UUID of the layout's in its words is that of a superblock it writes."""
        for uuid in (word for word in words if not down and is_uuid_of(word, self.layout)):
            named = [word for word in words if word.startswith("/dev/") and self.find(word)]
            for path in named or [claim.node for claim in claims]:
                self.sign(path, "made", uuid=uuid)
        for word in words[1:]:
            path = word if word.startswith("/") else f"/dev/mapper/{word}"
            there = self.find(path)
            if not is_own_path(path, self.layout):
                continue
            if down and there is not None:
                self.remove(there)
            elif not down and there is None:
                self.make(path, [self.at(claim.node) for claim in claims])

    # What there is

    def find(self, path: str) -> BlockDevice | None:
        found = [d for d in self.devices.values() if path in (d.path, *d.links)]
        return found[0] if found else None

    def at(self, path: str) -> BlockDevice:
        if (found := self.find(path)) is None:
            raise Refused(f"{path}: no such device")
        return found

    def on(self, device: BlockDevice) -> list[BlockDevice]:
        return [d for d in self.devices.values() if device.name in d.parents]

    def free(self, path: str) -> BlockDevice:
        """The device, which nobody has open."""
        device = self.at(path)
        parts = [d for d in self.on(device) if d.type == "part"]
        for one in (device, *parts):
            users = [d.path for d in self.on(one) if d.type != "part"]
            users += [m.target for m in self.mounts if m.source in (one.path, *one.links)]
            users += [pool for pool, names in self.pools.items() if one.name in names]
            users += [f"bcache {one.name}"] if self._registered(one) else []
            if users:
                raise Refused(f"{path}: busy, {one.name} is used by {', '.join(users)}")
        return device

    def make(
        self, path: str, on: Iterable[BlockDevice], name: str = "", kind: str = "dm",
        links: Sequence[str] = (), size: int = 0,
    ) -> BlockDevice:  # fmt: skip
        if self.find(path) or any(self.find(link) for link in links):
            raise Refused(f"{path} exists")
        self.number += 1
        below = [one.name for one in on]
        least = size or sum(self.devices[n].size for n in below)
        made = made_up.disk(name or f"dm-{self.number}", path=path, type=kind, parents=below, serial="", size=least,
                            majmin=f"253:{self.number}", links=list(links))  # fmt: skip
        self.devices[made.name] = made
        return made

    def remove(self, device: BlockDevice) -> None:
        self.free(device.path)
        del self.devices[device.name]
        self.owners.pop(device.name, None)

    def sign(self, path: str, kind: str, label: str = "", owner: str = "", uuid: str = "") -> None:
        device = self.free(path)
        if any(s.type == kind for s in device.signatures):
            raise Refused(f"{path} has a {kind} signature already")
        signature = Signature(kind, 0, label, uuid, devices=int(kind == "btrfs"))
        self._change(device, signatures=(*device.signatures, signature))
        if owner:
            self.owners[device.name] = owner

    def _change(self, device: BlockDevice, **given: Any) -> BlockDevice:
        self.devices[device.name] = changed = replace(device, **given)
        return changed

    def blank(self, path: str) -> None:
        device = self.free(path)
        self._change(device, signatures=())
        self.owners.pop(device.name, None)
        self.sets.pop(device.name, None)

    # Programs, as our layers call them

    def _wipefs(self, words: list[str]) -> None:
        for path in words[1:]:
            self.blank(path)

    def _zero(self, words: list[str]) -> None:
        for path, at in zip(words[::2], words[1::2], strict=True):
            if at == "0":
                self.blank(path)
            self.free(path)

    def _md_clear(self, words: list[str]) -> None:
        for path in words[1:]:
            self.free(path)

    def _blkdiscard(self, words: list[str]) -> None:
        self.blank(words[-1])

    def _blockdev(self, words: list[str]) -> None:
        for path in words[1:] if words[0] == "--rereadpt" else ():
            disk = self.free(path)
            for part in self.on(disk) if not disk.signatures else ():
                self.remove(part)

    def _sgdisk(self, words: list[str]) -> None:
        disk = self.free(words[-1])
        self.sign(disk.path, "gpt")
        news = [w.partition("=")[2].split(":") for w in words if w.startswith("--new=")]
        names = [w.partition("=")[2] for w in words if w.startswith("--change-name=")]
        for (number, first, last), name in zip(news, names, strict=True):
            size = (int(last) - int(first) + 1) * disk.logical_sector
            label = name.partition(":")[2]
            self._part(disk, number, size, f"/dev/disk/by-partlabel/{label}")

    def _part(self, disk: BlockDevice, number: str, size: int, *links: str) -> BlockDevice:
        name = f"{disk.name}{number}"
        return self.make(f"/dev/{name}", [disk], name, "part", links, size)

    def _mount(self, words: list[str]) -> None:
        source, target = words[-2:]
        if target not in self.directories:
            raise Refused(f"mount: {target}: no such directory")
        self.mounts.append(Mount(self.free(source).path, target, words[1]))

    def _umount(self, words: list[str]) -> None:
        there = [mount for mount in self.mounts if mount.target == words[0]]
        if not there:
            raise Refused(f"umount: {words[0]} is not mounted")
        self.mounts.remove(there[-1])

    def _mkdir(self, words: list[str]) -> None:
        if has_layout_name(PurePosixPath(words[-1]).name, self.layout):
            self.directories.add(words[-1])

    def _remove_empty(self, words: list[str]) -> None:
        if any(mount.target == words[0] for mount in self.mounts):
            raise Refused(f"rmdir: {words[0]}: busy")
        self.directories.discard(words[0])

    _remove_marked = _remove_empty

    def _touch(self, words: list[str]) -> None:
        assert str(PurePosixPath(words[0]).parent) in self.directories

    # LVM

    def _pvcreate(self, words: list[str]) -> None:
        flags, (path,) = _lvm(words)
        self.sign(path, "LVM2_member", owner="lvm", uuid=flags["--uuid"])

    def _vgcreate(self, words: list[str]) -> None:
        group, *paths = _lvm(words)[1]
        for path in paths:
            device = self.at(path)
            if self.owners.get(device.name) != "lvm":
                raise Refused(f"{path} is no physical volume without a group")
            self.owners[device.name] = f"lvm {group}"

    _vgextend = _vgcreate

    def _lvcreate(self, words: list[str]) -> None:
        flags, (where, *paths) = _lvm(words)
        group, _, origin = where.partition("/")
        name, kind = flags["--name"], flags.get("--type", "linear")
        on = [self.at(path) for path in paths]
        if kind == "cache":
            return self._cached(group, origin, [f"{name}_cpool_cdata", f"{name}_cpool_cmeta"], on)
        if kind == "cache-pool" or flags.get("--activate") == "n":
            self.hidden[f"{group}/{name}"] = ",".join(paths)
            return
        if kind == "raid1":
            on = [self._lv(group, f"{name}_{sub}_{number}", [one]) for number, one in enumerate(on)
                  for sub in ("rimage", "rmeta")]  # fmt: skip
        elif kind not in ("linear", "striped"):  # vdo, thin: a pool of LVM's own is beneath it
            pool = flags.get("--vdopool", "vpool0")
            on = [self._lv(group, f"{pool}-{kind}", [self._lv(group, f"{pool}_{kind}data", on)])]
        self._lv(group, name, on)

    def _lvconvert(self, words: list[str]) -> None:
        flags, (origin,) = _lvm(words)
        fast = flags.get("--cachepool") or flags["--cachevol"]
        group, _, name = fast.partition("/")
        if (volume := self.find(f"/dev/{fast}")) is not None:
            on = [self.devices[parent] for parent in volume.parents]
            self.remove(volume)
        else:
            on = [self.at(path) for path in self.hidden.pop(fast).split(",")]
        subs = ("_cdata", "_cmeta") if "--cachepool" in flags else ("_cvol",)
        self._cached(group, origin.partition("/")[2], [name + sub for sub in subs], on)

    def _cached(self, group: str, origin: str, subs: list[str], on: list[BlockDevice]) -> None:
        top = self.at(f"/dev/{group}/{origin}")
        below = [self.devices[parent] for parent in top.parents]
        self.remove(top)
        core = self._lv(group, f"{origin}_corig", below)
        self._lv(group, origin, [core, *(self._lv(group, sub, on) for sub in subs)])

    def _lv(self, group: str, name: str, on: list[BlockDevice]) -> BlockDevice:
        mapped = f"{group.replace('-', '--')}-{name}"
        return self.make(f"/dev/mapper/{mapped}", on, links=[f"/dev/{group}/{name}"], kind="lvm")

    def _dm_remove(self, words: list[str]) -> None:
        for name in words:
            if (there := self.find(f"/dev/mapper/{name}")) is not None:
                self.remove(there)

    def _flashcache_remove(self, words: list[str]) -> None:
        self._dm_remove(words[:1])

    def _flashcache_create(self, words: list[str]) -> None:
        name, *paths = words[-3:]
        self.make(f"/dev/mapper/{name}", [self.free(path) for path in paths])

    # md, bcache

    def _mdadm(self, words: list[str]) -> None:
        paths = [word for word in words if word.startswith("/dev/") and "/md/" not in word]
        if words[0] == "--create":
            group = [self.free(path) for path in paths]
            for path in paths:
                self.sign(path, "linux_raid_member", f"any:{self.layout}", f"md {self.layout}")
            self.make(f"/dev/md{127 - self.number}", group, f"md{127 - self.number}", "raid", [words[1]])  # fmt: skip
            return
        array = self.at(next(word for word in words if word.startswith("/dev/md/")))
        for path in paths:
            self.sign(path, "linux_raid_member", f"any:{self.layout}", f"md {self.layout}")
            array = self._change(array, parents=(*array.parents, self.at(path).name))

    def _md_stop(self, words: list[str]) -> None:
        if (array := self.find(words[0])) is not None:
            self.remove(array)

    def _make_bcache(self, words: list[str]) -> None:
        uuid = words[words.index("--cset-uuid") + 1]
        for path in _after(words, "-B") + _after(words, "-C"):
            self.sign(path, "bcache", owner="bcache", uuid=uuid)
            self.sets[self.at(path).name] = Bcache(uuid)

    def _bcache_register(self, words: list[str]) -> None:
        cache, *backing = (self.free(path) for path in words)
        for number, one in enumerate(backing):
            self.make(f"/dev/bcache{number}", [one, cache], f"bcache{number}", "bcache")
        for path in words:
            device = self.at(path)
            self.sets[device.name] = replace(self.sets[device.name], registered=True)

    def _bcache_set(self, words: list[str]) -> None:
        backing, label = self.at(words[0]), words[1]
        [top] = self.on(backing)
        self._change(top, links=(*top.links, f"/dev/bcache/by-label/{label}"))
        self.sets[backing.name] = replace(self.sets[backing.name], label=label)
        self.owners[backing.name] = f"bcache {label}"

    def _bcache_release(self, words: list[str]) -> None:
        """Of a set, with the label of ours; then the devices of both halves."""
        own, paths = words[1], words[2:]
        named = [n for n, one in self.sets.items() if f"{one.label}-".startswith(f"{own}-")]
        here = [self.devices[name] for name in named if name in self.devices]
        for device in [*(self.at(path) for path in paths), *here]:
            for top in self.on(device) if self._registered(device) else ():
                for name in top.parents:
                    self.sets[name] = replace(self.sets[name], registered=False)
                self.remove(top)

    def _registered(self, device: BlockDevice) -> bool:
        return device.name in self.sets and self.sets[device.name].registered

    # ZFS

    def _zpool(self, words: list[str]) -> None:
        name = words[-1]
        if words[0] == "destroy":
            if name not in self.pools:
                raise Refused(f"there is no pool {name}")
            for dataset in sorted(self.datasets, reverse=True):
                self._zfs(["destroy", "-r", dataset])
            del self.pools[name]
            return
        kept = [
            w for w, before in zip(words, ["", *words], strict=False) if before not in ("-o", "-O")
        ]
        name = next(word for word in kept[1:] if not word.startswith("-"))
        whole = [self.free(word) for word in kept if word.startswith("/dev/")]
        used = [self._cut(device) for device in whole]
        for one in used:
            self.sign(one.path, "zfs_member", name, f"zpool {name}")
        self.pools[name], self.datasets[name] = [one.name for one in used], ""

    def _cut(self, device: BlockDevice) -> BlockDevice:
        """Of a whole disk OpenZFS makes two partitions."""
        if device.type != "disk":
            return device
        self.sign(device.path, "gpt")
        self._part(device, "9", 8 * MIB)
        return self._part(device, "1", device.size - 10 * MIB)

    def _zfs(self, words: list[str]) -> None:
        name, pool = words[-1], words[-1].partition("/")[0]
        if words[0] == "destroy":
            if (volume := self.find(f"/dev/zvol/{name}")) is not None:
                self.remove(volume)
            self.mounts = [mount for mount in self.mounts if mount.source != name]
            del self.datasets[name]
        elif "-V" in words:
            size = int(words[words.index("-V") + 1])
            on = [self.devices[one] for one in self.pools[pool]]
            self.datasets[name] = ""
            self.make(f"/dev/zd{self.number}", on, f"zd{self.number}", "zvol", [f"/dev/zvol/{name}"], size)  # fmt: skip
        else:
            mount = next(w.partition("=")[2] for w in words if w.startswith("mountpoint="))
            self.datasets[name] = mount
            self.directories.add(mount)
            self.mounts.append(Mount(name, mount, "zfs"))


def _array(device: BlockDevice) -> MdArray:
    members = tuple(MdMember(name, number) for number, name in enumerate(device.parents))
    return MdArray(device.name, "active", members=members, slots=len(members), up=len(members))


def _lvm(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Flags with their values, and what they are about."""
    flags, rest, left = {}, [], list(words)
    while left:
        word = left.pop(0)
        if word in ("--yes", "--norestorefile"):
            continue
        if word.startswith("--"):
            flags[word] = left.pop(0)
        else:
            rest.append(word)
    return flags, rest


def _after(words: list[str], flag: str) -> list[str]:
    rest = words[words.index(flag) + 1 :]
    return rest[: next((at for at, word in enumerate(rest) if word.startswith("-")), len(rest))]
