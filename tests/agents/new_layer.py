"""A layer that somebody adds: its file and one case, in folders of their own. For tests of what else it would need."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents import layers
from agents.drivers import registry
from tests.agents import layer_cases

KIND = "vdo"
SOURCE = '''
"""A volume that compresses and deduplicates. Source: lvmvdo(7)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from agents.contracts import Need, OptionsError, Plan, Step, Target, Use
from agents.facts.model import HostFacts
from agents.layers import _lvm
from agents.steps.common import erase_all, member_nodes, settle, still_there, without_uses
from agents.command_forms import Form

LABEL = "VDO"
COMMANDS = {"vdoformat": (Form("--force", {"--slab-bits": r"\\d+"}),)}
TUNE = 'vdostats "$1" >/dev/null && echo "$2" >"$3"'
SCRIPTS = {TUNE: (("name", "number", "setting"), ())}
NEEDS = (_lvm.NEED_LVM, _lvm.NEED_DMSETUP)
USES = {"data": Use("disks of the pool")}
REQUIRES = "devices"
PROVIDES = "volume"


@dataclass(frozen=True, slots=True)
class Options:
    compression: bool = field(default=True, metadata={"help": "Compress each block"})
    virtual_size: int = field(
        default=1 << 30, metadata={"help": "What it claims to hold", "unit": "B", "minimum": 1 << 30}
    )

    def __post_init__(self) -> None:
        if self.virtual_size % (4 << 20):
            raise OptionsError("virtual_size: must be a multiple of 4 MiB")


def required_programs(options: Options) -> tuple[Need, ...]:
    return NEEDS


def plan(options: Options, target: Target, facts: HostFacts) -> Plan:
    pieces, name = member_nodes(target, "data", main=True), target.name
    nodes = [piece.node for piece in pieces]
    words = ("--type", "vdo", "--vdopool", "vpool", "--compression", "y" if options.compression else "n",
             "--extents", "100%FREE", "--virtualsize", f"{options.virtual_size}b", "--name", "vdo", name, *nodes)
    steps = (
        *erase_all(target, pieces, facts, settled=False),
        *_lvm.make_pvs(target, "data", pieces, nodes, facts),
        _lvm.lvm_step("vgcreate", (name, *nodes), f"Make the volume group {name}", target, nodes, facts),
        _lvm.lvm_step("lvcreate", words, f"Make {name}/vdo", target, nodes, facts),
        settle(),
    )
    gives = replace(without_uses(target, "data"), volume=f"/dev/{name}/vdo", size=options.virtual_size)
    return Plan(steps, gives)


def teardown(options: Options, target: Target, facts: HostFacts) -> list[Step]:
    there = still_there(target, member_nodes(target, "data", main=True), facts)
    return [*_lvm.remove_nodes(target, facts, "vdo", "vpool"), *erase_all(target, there, facts)]


def verify(options: Options, target: Target, facts: HostFacts) -> list[str]:
    return [] if _lvm.device_table(f"{target.name}-vdo", facts) else [f"/dev/{target.name}/vdo is not active"]
'''
CASE = """{
  "options": {"compression": false},
  "target": {"devices": {"data": ["sdb", "sdc"]}},
  "facts": {"devices": [{"name": "sdb"}, {"name": "sdc"}]},
  "plan": [], "gives": {"volume": "/dev/bl17/vdo", "size": 1073741824}
}
"""


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The layer's kind, while it is there."""
    drivers, cases = tmp_path / "layers", tmp_path / "cases" / KIND
    drivers.mkdir()
    cases.mkdir(parents=True)
    (drivers / f"{KIND}.py").write_text(SOURCE)
    (cases / "two_disks.json").write_text(CASE)
    monkeypatch.setattr(layers, "__path__", [*layers.__path__, str(drivers)])
    monkeypatch.setattr(layer_cases, "CASES", cases.parent)
    registry.load_drivers.cache_clear()
    yield KIND
    sys.modules.pop(f"{layers.__name__}.{KIND}", None)
    vars(layers).pop(KIND, None)
    registry.load_drivers.cache_clear()
