# SPDX-License-Identifier: Apache-2.0
"""Settings that bear on what a layout measures, at one moment: compared before and after every run. Pure.

The facts by which a layout was verified and the health check between runs show the same files, tables and properties;
so whatever a layer sets or its `verify` looks at is compared here, and no driver lists it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agents.facts.graph import Graph, has_layout_name
from agents.facts.health import Health
from agents.facts.model import HostFacts, MdArray, Mount
from agents.facts.sysfs import QUEUE

BCACHE = (
    "cache_mode",
    "sequential_cutoff",
    "writeback_percent",
    "writeback_delay",
    "writeback_running",
    "discard",
    "cache_replacement_policy",
    "readahead_cache_policy",
)
MD = ("stripe_cache_size", "group_thread_cnt", "preread_bypass_threshold", "skip_copy")
# Directory below /sys/class/block/X -> its files, and how an error calls them
SYSFS = {"queue": ("", QUEUE), "bcache": ("bcache ", BCACHE), "md": ("md ", MD)}
# Read-only is what the kernel makes of a mount after an error: a fault (a layer's `ails`), and no setting.
FAULTS = {"rw", "ro", "emergency_ro", "shutdown"}
# many words, of which some may differ
TABLE, MOUNT = "device-mapper table", "mount options"
POOL, DATASET = "zpool ", "zfs "
# Their tables stay as they are while nobody loads another one; flashcache counts in its own.
TABLES = {"linear", "striped", "crypt", "cache", "writecache", "raid", "mirror", "multipath"}

# its name, and of what: ("read_ahead_kb", "/dev/sdb")
Setting = tuple[str, str]
Settings = Mapping[Setting, str]


@dataclass(frozen=True, slots=True)
class Scope:
    """The parts of a host that belong to a layout.

    `growing`: the kernel works on its volumes, so that only its disks and the host are compared.
    """

    name: str
    # nodes
    disks: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    mounts: frozenset[str] = frozenset()
    growing: bool = False

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.disks if self.growing else (*self.disks, *self.volumes)


@dataclass(frozen=True, slots=True)
class Change:
    """A setting that is not as it was. `now` is empty where it cannot be read any more."""

    setting: Setting
    was: str
    now: str

    def describe(self, then: str, when: str) -> str:
        """Sentence without a full stop: "read_ahead_kb of /dev/sdb was 128 THEN and is 256 WHEN"."""
        name, subject = self.setting
        was, now = self.was, self.now
        if now and name in (TABLE, MOUNT):
            was, now = _differing_words(was, now), _differing_words(now, was)
        what = f"{name} of {subject}" if subject else name
        return f"{what} was {was} {then} and is {now or 'not there'} {when}"


def settings_from_facts(facts: HostFacts, scope: Scope) -> Settings:
    """Settings by a whole reading of the host."""
    graph = Graph(facts)
    devices = {node: device for node in scope.nodes if (device := graph.find_device(node))}
    names = {node: device.name for node, device in devices.items()}
    files: dict[str, dict[str, str]] = {name: {} for name in names.values()}
    for device in devices.values():
        files[device.name] |= _with_folder("queue", device.queue)
        if cached := facts.bcache.get(device.name):
            files[device.name] |= _with_folder("bcache", cached.values)
    for array in facts.md_arrays:
        files.get(array.name, {}).update(_with_folder("md", array.settings))
    return {
        **_device_settings(scope, names, files),
        **_array_settings(scope, names, facts.md_arrays),
        **_table_settings(scope, facts.dm_tables),
        **_mount_settings(scope, facts.mounts),
        **_property_settings(scope, POOL, {pool.name: pool.properties for pool in facts.zpools}),
        **_property_settings(
            scope, DATASET, {dataset.name: dataset.properties for dataset in facts.datasets}
        ),
        **_host_settings(facts.sysctls, facts.governors),
    }


def settings_from_health(health: Health, scope: Scope) -> Settings:
    """Settings by a health check: of ZFS those alone that can be set."""
    return {
        **_device_settings(scope, health.names, health.values),
        **_array_settings(scope, health.names, health.arrays),
        **_table_settings(scope, health.tables),
        **_mount_settings(scope, health.mounts or ()),
        **_property_settings(scope, POOL, health.pool_properties),
        **_property_settings(scope, DATASET, health.dataset_properties),
        **_host_settings(health.sysctls, health.governors),
    }


def changed_settings(was: Settings, now: Settings, faulty: bool = False) -> list[Change]:
    """Settings of `was` that differ now, in their order.

    A setting of a device or a table that cannot be read any more has changed, unless the layout is `faulty`: a disk
    that is gone is a fault already. Whether a mount or a pool is there is for the health check alone.
    """
    changes = []
    for setting, value in was.items():
        name, subject = setting
        if setting in now:
            if now[setting] != value:
                changes.append(Change(setting, value, now[setting]))
        elif subject and not faulty and name != MOUNT and not name.startswith((POOL, DATASET)):
            changes.append(Change(setting, value, ""))
    return changes


def _with_folder(folder: str, values: Mapping[str, str]) -> dict[str, str]:
    return {f"{folder}/{name}": value for name, value in values.items()}


def _device_settings(
    scope: Scope, names: Mapping[str, str], files: Mapping[str, Mapping[str, str]]
) -> Settings:
    """`files`: by kernel name, the contents of those below /sys/class/block/NAME."""
    settings = dict[Setting, str]()
    for node in scope.nodes:
        values = files.get(names.get(node, ""), {})
        for folder, (prefix, attributes) in SYSFS.items():
            for name in attributes:
                if value := values.get(f"{folder}/{name}", ""):
                    # the selected one of a list: "writethrough [writeback] none" is writeback
                    chosen = re.search(r"\[([^\]]+)\]", value)
                    settings[prefix + name, node] = chosen[1] if chosen else value
    return settings


def _array_settings(scope: Scope, names: Mapping[str, str], arrays: Iterable[MdArray]) -> Settings:
    by_name = {array.name: array for array in arrays}
    settings = dict[Setting, str]()
    for node in scope.nodes:
        if array := by_name.get(names.get(node, "")):
            settings["md level", node] = array.level
            settings["md chunk", node] = f"{array.chunk} B"
            settings["md layout", node] = array.layout or "none"
            settings["md bitmap", node] = "internal" if array.bitmap else "none"
    return settings


def _table_settings(scope: Scope, lines: Iterable[str]) -> Settings:
    """Tables of the layout's mappings, the segments of each joined.

    What has become an error target is not there any more: that is what LVM makes of a disk that is gone.
    """
    settings = dict[Setting, str]()
    for line in () if scope.growing else lines:
        name, *words = line.split()
        name = name.removesuffix(":")
        if has_layout_name(name, scope.name) and words[2:3] != ["error"]:
            row = words if words[2:3] and words[2] in TABLES else words[:3]
            settings[TABLE, name] = " ".join(filter(None, (settings.get((TABLE, name)), *row)))
    return settings


def _mount_settings(scope: Scope, mounts: Iterable[Mount]) -> Settings:
    return {
        (MOUNT, mount.target): ",".join(
            word for word in dict.fromkeys(mount.options.split(",")) if word not in FAULTS
        )
        for mount in mounts
        if mount.target in scope.mounts
    }


def _property_settings(
    scope: Scope, prefix: str, properties: Mapping[str, Mapping[str, str]]
) -> Settings:
    return {
        (prefix + key, name): value
        for name, values in properties.items()
        if has_layout_name(name, scope.name)
        for key, value in values.items()
    }


def _host_settings(sysctls: Mapping[str, str], governors: Mapping[str, str]) -> Settings:
    return {
        **{(name, ""): value for name, value in sysctls.items()},
        **{(f"CPU governor {policy}", ""): value for policy, value in governors.items()},
    }


def _differing_words(words_text: str, other_text: str) -> str:
    """The words that the other has not; all of them where only their order differs."""
    words = re.split("[ ,]", words_text)
    others = set(re.split("[ ,]", other_text))
    return " ".join(word for word in words if word not in others) or words_text or "none"
