"""One stack's whole life on a real host, and the test's own proof that nothing is left."""

from __future__ import annotations

from collections.abc import Sequence

from agents import options
from agents.contracts import Target
from agents.drivers import registry
from agents.plans.chain import LayerSpec, StageSpec
from agents.safety.guard import Spare
from tests.rig.bench import Bench

# By the host's own tools, each of which would know something of ours; a tool that is not there knows nothing.
LEFT = """
exec </dev/null
udevadm settle # lsblk tells what udev saw last
pvs --noheadings 2>/dev/null
vgs --noheadings 2>/dev/null
dmsetup ls | grep -v 'No devices found'
grep '^md' /proc/mdstat
for d in "$@"; do mdadm --examine "$d" 2>/dev/null | grep -i 'magic\\|array'; done
zpool list -H 2>/dev/null
zpool import 2>/dev/null | grep 'pool:'
ls -d /sys/fs/bcache/*-* /sys/block/bcache* 2>/dev/null
wipefs -n "$@"
lsblk -nro NAME,TYPE,FSTYPE,MOUNTPOINT "$@" | grep -v ' disk *$'
grep -h 'benchlab/bl' /proc/mounts
ls -d /dev/md/* /dev/bl[0-9]* /dev/zvol/* 2>/dev/null
true
"""


def mark(bench: Bench, wants: dict[str, int]) -> None:
    """As many disks of each role as the stack wants, and no other, are spare."""
    left = list(bench.disks)
    facts, spares = bench.facts(), {}
    for role, number in wants.items():
        assert len(left) >= number, f"the host has too few disks for {wants}"
        for name in left[:number]:
            device = facts.find_device(name)
            assert device is not None
            spares[device.identity] = Spare(device.identity, device.size, device.model, role)
        del left[:number]
    bench.spares = spares


def live(bench: Bench, layers: Sequence[LayerSpec], stages: Sequence[StageSpec]) -> None:
    """Plan, apply, verify, measure, grow, measure, take down, prove; take down again.

    A run changes no setting: a false alarm would cost its result.
    """
    mark(bench, _wants(layers, stages))
    made = bench.plan(*layers, stages=stages)
    bench.build(made)
    bench.wait(made)
    before = bench.facts()
    fio(bench, made.target)
    assert bench.changes(made, before) == []
    for number in range(1, len(stages) + 1):
        bench.grow(made, number)
        before = bench.facts()
        fio(bench, made.layers_after(number)[-1].gives)
        assert bench.changes(made, before, number) == []
    bench.take_down(made)
    nothing_left(bench)
    bench.take_down(made)
    nothing_left(bench)


def _wants(layers: Sequence[LayerSpec], stages: Sequence[StageSpec]) -> dict[str, int]:
    wants: dict[str, int] = {}
    asked = [one.devices for one in layers] + [one.devices for one in stages]
    for wanted in (wanted for devices in asked for wanted in devices):
        wants[wanted.role] = wants.get(wanted.role, 0) + wanted.count
    return wants


def fio(bench: Bench, target: Target) -> None:
    """A second of random writes by our own fio driver, on what the layout gives its tools."""
    tool = registry.tool("fio")
    asked = {"rw": "randwrite", "size": 16 << 20, "runtime_s": 1, "iodepth": 4, "ramp_s": 0}
    known = {k: v for k, v in asked.items() if k in tool.Options.__dataclass_fields__}
    job = tool.build_job(options.build_options(tool.Options, known), target)
    [(name, content)] = job.inputs.items()
    script = 'cd /tmp && cat >"$1" && shift && exec "$@" </dev/null'
    argv = ("sh", "-c", script, "fio", name, *job.argv)
    bench.seen = None
    bench.host.ssh(*argv, stdin=content.decode(), timeout=120)


def nothing_left(bench: Bench) -> None:
    nodes = [f"/dev/{name}" for name in bench.disks]
    said = bench.host.ssh("sh", "-c", LEFT, "left", *nodes, timeout=120).stdout
    assert said.strip() == "", said
