"""Tuning on a real kernel: set, read back, restored, also after a power loss; the test reads /sys and /proc itself."""

from __future__ import annotations

import pytest

from agents.contracts import PlanError
from agents.plans import stack
from agents.plans.chain import DiskRequest, LayerSpec
from tests.rig.bench import LAYOUT, RAW, Bench, filesystem


@pytest.fixture(scope="module")
def bench(rig_host) -> Bench:
    return Bench(rig_host)


def tuning(**options: object) -> LayerSpec:
    return LayerSpec("tuning", options)


QUEUE = ("scheduler", "nr_requests", "read_ahead_kb", "nomerges")
SYSCTLS = ("vm/dirty_ratio", "vm/dirty_bytes", "vm/dirty_background_ratio", "vm/swappiness")


def settings(bench: Bench, disk: str) -> list[str]:
    """Queue and sysctls as the kernel prints them; of the scheduler's line only the chosen one."""
    paths = [f"/sys/block/{disk}/queue/{name}" for name in QUEUE]
    paths += [f"/proc/sys/{name}" for name in SYSCTLS]
    lines = bench.run(f"cat {' '.join(paths)}").splitlines()
    return [lines[0].partition("[")[2].partition("]")[0], *lines[1:]]


def the_disk(made: stack.StackPlan) -> str:
    return made.claims[0].node.removeprefix("/dev/")


def test_every_scheduler_is_set_read_back_and_restored(bench):
    plain = bench.plan(RAW)
    bench.build(plain)
    before = settings(bench, the_disk(plain))
    for scheduler in ("kyber", "bfq", "none", "mq-deadline"):
        made = bench.plan(RAW, tuning(scheduler=scheduler))
        bench.apply(made.layers[1].steps)
        assert settings(bench, the_disk(made))[0] == scheduler
        assert stack.verify_stack(made, bench.facts()) == []
        bench.apply(
            stack.teardown_stack(made, bench.facts())[
                : -len(stack.teardown_stack(plain, bench.facts()))
            ]
        )
        assert settings(bench, the_disk(made)) == before
        assert stack.not_restored(made, bench.facts()) == []
    bench.assert_taken_down(plain)


EVERYTHING = {
    "scheduler": "none",
    "nr_requests": 48,
    "read_ahead_kb": 4096,
    "volume_read_ahead_kb": 4096,
    "nomerges": 2,
    "sysctls": ["vm.dirty_bytes=67108864", "vm.dirty_background_ratio=3", "vm.swappiness=7"],
}
SET = ["none", "48", "4096", "2", "0", "67108864", "3", "7"]


def test_everything_is_set_under_a_file_system_and_restored(bench):
    made = bench.plan(RAW, tuning(**EVERYTHING), filesystem("ext4"))
    disk = the_disk(made)
    bench.run(f"echo 96 >/sys/block/{disk}/queue/nr_requests")  # what a person set stays theirs
    made = bench.plan(RAW, tuning(**EVERYTHING), filesystem("ext4"))
    before = settings(bench, disk)
    assert before[1] == "96"
    bench.build(made)
    assert settings(bench, disk) == SET
    bench.run(f"echo 8 >/sys/block/{disk}/queue/read_ahead_kb")
    assert stack.verify_stack(made, bench.facts()) == [
        f"tuning: /dev/{disk}: read_ahead_kb is 8, not 4096",
        f"tuning: /dev/{disk}: read_ahead_kb is 8, not 4096",
    ]
    bench.assert_taken_down(made)
    assert settings(bench, disk) == before
    bench.run(f"echo 128 >/sys/block/{disk}/queue/nr_requests")


def test_what_the_kernel_clamps_is_said(bench):
    made = bench.plan(RAW, tuning(nr_requests=1))
    bench.apply([step for layer in made.layers for step in layer.steps])
    assert stack.verify_stack(made, bench.facts()) == [
        f"tuning: {made.claims[0].node}: nr_requests is 4, not 1"
    ]
    bench.assert_taken_down(made)
    assert stack.not_restored(made, bench.facts()) == []


def test_a_failed_write_is_undone(bench):
    made = bench.plan(RAW, tuning(read_ahead_kb=64, sysctls=["vm.dirty_background_ratio=101"]))
    disk = the_disk(made)
    before = settings(bench, disk)
    with pytest.raises(Exception, match="Invalid argument"):
        bench.build(made)
    assert settings(bench, disk) == before
    bench.assert_taken_down(made)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scheduler": "cfq"}, "has no scheduler 'cfq' on kernel .* it has .*mq-deadline"),
        ({"governor": "performance"}, "no cpufreq"),
        ({"sysctls": ["vm.zone_reclaim_mode=1"]}, "no sysctl vm.zone_reclaim_mode"),
        ({}, "nothing to set"),
    ],
)
def test_what_the_host_has_not_is_refused_before_anything(bench, options, said):
    with pytest.raises(PlanError, match=said):
        bench.plan(RAW, tuning(**options))


def test_without_disks_only_the_host_can_be_tuned(bench):
    with pytest.raises(PlanError, match="no disks below"):
        bench.plan(tuning(scheduler="none"), RAW)
    made = bench.plan(tuning(sysctls=["vm.dirty_ratio=5"]), RAW)
    bench.build(made)
    assert bench.run("cat /proc/sys/vm/dirty_ratio") == "5\n"
    bench.assert_taken_down(made)
    assert bench.run("cat /proc/sys/vm/dirty_ratio") == "20\n"


def test_after_a_power_loss_at_any_step_it_is_taken_down_and_built_anew(bench):
    specs = (RAW, tuning(**EVERYTHING))
    made = bench.plan(*specs)
    before = settings(bench, the_disk(made))
    for stop in (len(made.layers[0].steps) + 1, len(made.steps) - 1):
        made = bench.plan(*specs)
        bench.apply(made.steps[:stop])
        bench.power_loss()
        bench.assert_taken_down(made)
        assert stack.not_restored(made, bench.facts()) == []
    made = bench.plan(*specs)
    bench.build(made)
    for _ in range(4):  # the way down cut off after every step, no reboot
        bench.apply(stack.teardown_stack(made, bench.facts())[:1], undo=False)
    bench.assert_taken_down(made)
    assert settings(bench, the_disk(made)) == before


def test_the_read_ahead_of_a_stacked_volume(bench):
    spec = LayerSpec("lvm", {}, (DiskRequest("data", "ssd", 2),))
    made = bench.plan(spec, tuning(read_ahead_kb=512, volume_read_ahead_kb=2048))
    bench.build(made)
    node = made.target.volume
    assert bench.run(f"blockdev --getra {node}") == "4096\n"
    members = " ".join(claim.node for claim in made.claims)
    assert bench.run(f"for d in {members}; do blockdev --getra $d; done") == "1024\n1024\n"
    bench.assert_taken_down(made)
    assert LAYOUT not in bench.run("dmsetup ls 2>/dev/null || true")
