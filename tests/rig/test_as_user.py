"""Tools on a real host as users who are not root: the same work as root's, and no way to anything else."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from agents import options
from agents.contracts import Job, Target
from agents.drivers import registry
from agents.jobs import job
from agents.jobs.job import Fetched, State
from agents.plans.chain import DiskRequest, LayerSpec
from tests.rig.bench import RAW, Bench, filesystem

pytestmark = pytest.mark.rig
MIB = 1 << 20
FIO = {"rw": "randrw", "size": 16 * MIB, "runtime_s": 2, "iodepth": 8}
WAYS = [{"ioengine": engine} for engine in ("libaio", "io_uring", "psync", "sync", "posixaio")]
ATTACK = """
id -u
own=$(readlink -f "$0")
for disk in /dev/ubd? /dev/vd? /dev/dm-* /dev/md[0-9]* /dev/zd*; do
    [ -b "$disk" ] && [ "$disk" != "$own" ] || continue
    head -c 1 "$disk" >/dev/null 2>&1 && echo "read $disk"
    dd if=/dev/zero of="$disk" bs=1 count=0 conv=notrunc 2>/dev/null && echo "open $disk"
done
for file in /etc/shadow /dev/mem /root/.ssh/authorized_keys; do
    cat "$file" >/dev/null 2>&1 && echo "read $file"
done
for place in /etc /root /srv /var/tmp/benchlab-0; do
    (: >"$place/benchlab-was-here") 2>/dev/null && echo "wrote $place"
done
mknod node b 98 0 2>/dev/null && echo node
setsid sh -c 'sleep 1000' &
[ -d "$0" ] || head -c 4096 "$0" | wc -c
"""
STACKS = {
    "LVM stripe": (LayerSpec("lvm", {"type": "striped"}, (DiskRequest("data", "ssd", 2),)),),
    "LVM cache": (
        LayerSpec("lvm", {"type": "linear"}, (DiskRequest("data", "ssd"),)),
        LayerSpec("lvm_cache", {}, (DiskRequest("cache", "ssd"),)),
    ),
    "md": (LayerSpec("md", {"level": 1}, (DiskRequest("data", "ssd", 2),)),),
}
POOL = LayerSpec("zpool", {"layout": "mirror"}, (DiskRequest("data", "ssd", 2),))
ZFS_STACKS = {"zvol": (POOL, LayerSpec("zvol", {})), "zfs": (POOL, LayerSpec("zfs", {}))}
DD = {"block_size": 65536, "count": 64}
ON_ANY: list[tuple[str, dict[str, object]]] = [("fio", FIO), ("dd", {**DD, "oflag": ("direct",)})]
IN_FILES: list[tuple[str, dict[str, object]]] = [
    ("fio", {**FIO, "direct": False}),
    ("dd", {**DD, "direction": "read"}),
    ("sysbench", {"size": 16 * MIB, "files": 4, "time_s": 2}),
    ("sysbench", {"size": 16 * MIB, "files": 4, "time_s": 2, "mode": "seqrd", "fsync_freq": 0}),
    ("bonnie", {"size": 64 * MIB, "ram": 32 * MIB, "files": 1, "fast": True}),
    ("pg_test_fsync", {"seconds": 1}),
    ("command", {}),
]


@pytest.fixture
def disk(rig_host):
    """A disk of the host, whose every block has something on it."""
    bench = Bench(rig_host)
    made = bench.plan(RAW)
    bench.build(made)
    yield bench, made.layers[-1].gives
    bench.assert_taken_down(made)


def ran(bench: Bench, work: Job, number: int) -> Fetched:
    spool = job.Spool(f"attempt-{number}")
    with bench.quicker():
        try:
            job.start_job(bench.shell, spool, work)
            polled = job.poll(bench.shell, spool, 60, outputs=work.outputs)
            assert polled.state is State.EXITED, polled
            assert polled.fetched.log == b"", polled.fetched.log
        finally:
            job.stop_job(bench.shell, spool)
            job.remove_spool(bench.shell, spool)
    return polled.fetched


def work_of(kind: str, told: dict[str, object], target: Target) -> Job:
    driver = registry.tool(kind)
    built = options.build_options(driver.Options, told)
    assert registry.root_reason(kind, built, target) == ""
    place = target.mount or target.volume
    room = registry.required_bytes(kind, built, target)
    return replace(driver.build_job(built, target), place=place, unprivileged=True, room=room)


def fio(fetched: Fetched) -> dict[str, object]:
    """How fio worked, without what differs from run to run."""
    assert fetched.files["stderr"] == b"", fetched.files["stderr"]
    said = json.loads(fetched.files["fio.json"])
    found = said["jobs"][0]
    assert found["error"] == 0 and found["read"]["total_ios"] > 0 < found["write"]["total_ios"]
    util = [one["name"] for one in said.get("disk_util", [])]
    return {"options": found.get("job options"), "global": said["global options"], "disks": util}


def same_both_ways(bench: Bench, work: Job) -> None:
    user, root = (ran(bench, one, 7) for one in (work, replace(work, unprivileged=False)))
    assert int(user.meta.user) > 0 and user.meta.why_root == "" and root.meta.user == "0"
    assert fio(user) == fio(root)


@pytest.mark.night
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way["ioengine"])
def test_fio_does_the_same_on_a_disk(disk, way):
    bench, target = disk
    same_both_ways(bench, work_of("fio", {**FIO, **way}, target))


@pytest.mark.night
@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_tools_do_the_same_in_a_file(rig_host, kind):
    """Past the page cache and through it: of a file every user may empty it."""
    bench = Bench(rig_host)
    made = bench.plan(RAW, filesystem(kind))
    bench.build(made)
    target = made.layers[-1].gives
    try:
        for direct in (True, False):
            for way in WAYS:
                same_both_ways(bench, work_of("fio", {**FIO, **way, "direct": direct}, target))
        told = ran(bench, work_of("pg_test_fsync", {"seconds": 1}, target), 8)
        assert int(told.meta.user) > 0 and b"fdatasync" in told.files["stdout"]
        told = ran(bench, work_of("dd", {"count": 16, "oflag": ("direct",)}, target), 9)
        assert int(told.meta.user) > 0 and b"16777216 bytes" in told.files["stderr"]
        assert bench.run(f"ls -A {target.mount} | grep -v lost+found || true") == ""
        assert bench.run(f"stat -c %u {target.mount}").strip() == "0"
    finally:
        bench.assert_taken_down(made)


@pytest.mark.night
@pytest.mark.parametrize("top", [(), (filesystem("ext4"),)], ids=["volume", "ext4"])
@pytest.mark.parametrize("name", STACKS)
def test_every_tool_gives_its_numbers_on_every_stack(rig_host, name, top):
    give_numbers(Bench(rig_host), (*STACKS[name], *top))


@pytest.mark.night
@pytest.mark.parametrize("name", ZFS_STACKS)
def test_every_tool_gives_its_numbers_on_zfs(zfs_host, name):
    give_numbers(Bench(zfs_host), ZFS_STACKS[name])


def give_numbers(bench: Bench, specs: tuple[LayerSpec, ...]) -> None:
    """As a user of its own, who may open no other disk, neither the volume's own below it."""
    made = bench.plan(*specs)
    bench.build(made)
    target = made.layers[-1].gives
    place = target.mount or target.volume
    tools = [*ON_ANY, *(IN_FILES if target.mount else ())]
    try:
        for number, (kind, told) in enumerate(tools, start=20):
            program = next((need.program for need in registry.tool(kind).NEEDS), "sh")
            there = bench.run(f"PATH=$PATH:/usr/lib/postgresql/15/bin command -v {program} || true")
            if not there.strip():
                continue
            work = work_of(kind, told, target)
            fetched = ran(bench, work, number)
            assert fetched.meta.exit_code == 0, (kind, fetched.files)
            assert int(fetched.meta.user) > 0 and fetched.meta.why_root == "", kind
            driver = registry.tool(kind)
            assert driver.parse(fetched.files, options.build_options(driver.Options, told)), kind
        work = Job(("sh", "-c", ATTACK, place), place=place, unprivileged=True)
        told = ran(bench, work, 19).files["stdout"].decode().split("\n")
        assert int(told[0]) > 0 and told[1:] == ([""] if target.mount else ["4096", ""])
    finally:
        bench.assert_taken_down(made)


def test_a_program_of_a_persons_reaches_the_layout_only(disk):
    bench, target = disk
    work = Job(("sh", "-c", ATTACK, target.volume), place=target.volume, unprivileged=True)
    told = ran(bench, work, 10)
    user, *rest = told.files["stdout"].decode().split("\n")
    assert user == told.meta.user != "0" and rest == ["4096", ""]
    assert bench.run(f"ps -o pid= -u {user} || true").strip() == ""
    # The node is what it was, and nobody else's.
    assert re.fullmatch(r"b\S+ 0", bench.run(f"stat -Lc '%A %u' {target.volume}").strip())
    assert bench.run("mount | grep -c benchlab || true").strip() == "0"
