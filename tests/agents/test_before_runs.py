"""Schedulers that runs ask for: commands on the layout's disks alone, checked words, and the way back. No host."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.contracts import AgentError, OptionsError, PlanError, Ran, Reason
from agents.facts import sysfs
from agents.facts.model import HostFacts
from agents.layers import _host_settings
from agents.plans import applied_part, before_runs, stack
from agents.plans.applied_part import reached
from agents.plans.chain import DiskRequest, LayerSpec, StageSpec
from agents.safety.guard import refusals
from agents.steps import scripts
from tests.agents.made_up import disk, host, spare

LVM = LayerSpec("lvm", {}, (DiskRequest("data", "ssd", 1),))
XFS = LayerSpec("filesystem", {"type": "xfs"})
HOSTILE = ("../x", "none\n", "none; rm -rf /", "", "NONE", "none mq-deadline", "/sys/x", "$(x)", "[none]")  # fmt: skip


def with_queue(name: str, number: int, scheduler: str, requests: str, **more: object):
    words = {"none", "mq-deadline", "kyber"} - {scheduler}
    queue = {"scheduler": f"[{scheduler}] {' '.join(sorted(words))}", "nr_requests": requests}
    return replace(disk(name, number, size=1 << 31, **more), queue=queue)


SDB, SDC = with_queue("sdb", 1, "mq-deadline", "96"), with_queue("sdc", 2, "none", "256")


def plan(schedulers, *specs, facts=None, stages=(), **more) -> stack.StackPlan:
    facts = facts or host(SDB, SDC)
    pool = spare(SDB, SDC, role="ssd").values()
    return stack.plan_stack(specs or (LVM,), "bl17", facts, pool, stages, schedulers)


def argvs(steps) -> list[tuple[str, ...]]:
    """Without the script, which is the guard's own."""
    for step in steps:
        assert step.argv[:4] == ("sh", "-c", scripts.QUEUE_WRITE, "set")
    return [tuple(map(str, step.argv[4:])) for step in steps]


def test_each_scheduler_is_set_on_the_disks_below_and_on_no_others():
    made = plan(["none", "kyber"], LVM, XFS)
    assert [(one.scheduler, one.stage) for one in made.swept.each] == [("none", 0), ("kyber", 0)]
    assert argvs(made.swept.steps) == [
        ("none", "/sys/block/sdb/queue/scheduler"),
        ("kyber", "/sys/block/sdb/queue/scheduler"),
    ]
    assert all(step.destroys == made.claims for step in made.swept.steps)
    assert made.steps[-2:] == made.swept.steps
    assert made.swept.steps[0].says == "Set scheduler to none on sdb"
    (claim,) = made.claims
    assert made.swept.kept == {
        f"{claim.identity} scheduler": "mq-deadline",
        f"{claim.identity} nr_requests": "96",
    }
    assert applied_part.from_json(applied_part.to_json(made)) == made


def test_the_disk_of_a_later_stage_is_left_alone_until_then():
    made = plan(["none"], LVM, stages=[StageSpec(1, {}, (DiskRequest("data", "ssd", 1),))])
    assert argvs(made.swept.before_run("none", 0).steps) == [
        ("none", "/sys/block/sdb/queue/scheduler")
    ]
    assert argvs(made.swept.before_run("none", 1).steps) == [
        ("none", "/sys/block/sdb/queue/scheduler", "/sys/block/sdc/queue/scheduler")
    ]
    with pytest.raises(PlanError, match="no I/O scheduler 'bfq'"):
        made.swept.before_run("bfq", 0)


def test_the_fingerprint_is_of_them_and_a_plan_without_has_the_one_it_had():
    plain, two, three = plan([]), plan(["none", "kyber"]), plan(["none", "kyber", "mq-deadline"])
    assert len({plain.fingerprint, two.fingerprint, three.fingerprint}) == 3
    older = applied_part.to_json(plain)
    del older["swept"]  # as it was stored before there were any
    assert applied_part.from_json(older) == plain


def test_another_scheduler_in_force_makes_no_other_plan():
    """Another layout of the host may sweep its own while this one is planned."""
    meanwhile = host(with_queue("sdb", 1, "kyber", "256"), SDC)
    then, now = plan(["none", "kyber"]), plan(["none", "kyber"], facts=meanwhile)
    assert then.fingerprint == now.fingerprint and then.swept.steps == now.swept.steps
    assert then.swept.kept != now.swept.kept


@pytest.mark.parametrize("word", HOSTILE)
def test_no_other_word_comes_near_a_command(word):
    with pytest.raises(OptionsError, match="is not an I/O scheduler; known are none, mq-deadline"):
        plan(["none", word])


def test_what_the_kernel_has_not_is_refused_with_what_it_has():
    with pytest.raises(PlanError, match=r"/dev/sdb has no scheduler 'bfq' .*; it has mq-deadline"):
        plan(["bfq"])
    with pytest.raises(OptionsError, match="none is listed twice"):
        plan(["none", "none"])


def test_a_layer_that_sets_one_itself_conflicts_and_both_are_named():
    tuning = LayerSpec("tuning", {"scheduler": "kyber"})
    with pytest.raises(PlanError) as error:
        plan(["none", "mq-deadline"], LVM, tuning)
    assert "layer 2 (Tuning) sets the I/O scheduler kyber itself" in str(error.value)
    assert "schedulers asks for none, mq-deadline" in str(error.value)
    folder = LayerSpec("directory", {"path": "/srv/x"})
    assert "uses no disk" in before_runs.conflict(["none"], [folder])
    assert before_runs.conflict([], [LVM, tuning]) == ""


def test_requests_that_a_layer_asks_for_are_set_again():
    """A new scheduler brings its own number."""
    made = plan(["none", "mq-deadline"], LVM, LayerSpec("tuning", {"nr_requests": 64}))
    assert argvs(made.swept.before_run("none", 0).steps) == [
        ("none", "/sys/block/sdb/queue/scheduler"),
        ("64", "/sys/block/sdb/queue/nr_requests"),
    ]
    assert all(one.as_before == () for one in made.swept.each)


def test_requests_are_what_they_were_with_the_scheduler_that_was_there():
    made = plan(["none", "mq-deadline"])
    same, other = made.swept.before_run("mq-deadline", 0), made.swept.before_run("none", 0)
    assert argvs(same.as_before) == [("96", "/sys/block/sdb/queue/nr_requests")]
    assert other.as_before == ()
    target = made.target
    fresh = {"sdb": {"scheduler": "mq-deadline", "nr_requests": "256"}}
    assert before_runs.not_as_before(same, made.swept, target, fresh)
    kept = {"sdb": {"scheduler": "mq-deadline", "nr_requests": "96"}}
    assert not before_runs.not_as_before(same, made.swept, target, kept)
    assert not before_runs.not_as_before(other, made.swept, target, fresh)


def during(scheduler: str, requests: str) -> HostFacts:
    return host(with_queue("sdb", 1, scheduler, requests), SDC)


def test_the_way_down_brings_them_back_first():
    made = plan(["none", "kyber"], LVM)
    steps = stack.teardown_stack(made, during("kyber", "256"))
    assert argvs(steps[:2]) == [
        ("mq-deadline", "/sys/block/sdb/queue/scheduler"),
        ("96", "/sys/block/sdb/queue/nr_requests"),
    ]
    quiet = stack.teardown_stack(made, during("mq-deadline", "96"))
    assert not [step for step in quiet if scripts.QUEUE_WRITE in step.argv], "nothing to do"
    assert stack.not_restored(made, during("kyber", "256")) == [
        "/dev/sdb: scheduler is kyber, it was mq-deadline",
        "/dev/sdb: nr_requests is 256, it was 96",
    ]
    assert stack.not_restored(made, during("mq-deadline", "96")) == []


def test_a_layout_of_which_nothing_was_begun_brings_nothing_back():
    made = reached(plan(["kyber"], LVM), touched=())
    assert made.layers == () and made.swept.kept
    assert stack.teardown_stack(made, during("kyber", "256")) == []
    assert stack.not_restored(made, during("kyber", "256")) == []


def test_the_guard_looks_at_each_of_them():
    made, facts = plan(["none", "kyber"]), host(SDB, SDC)
    spares = spare(SDB, SDC, role="ssd")
    assert [refusals(step, facts, spares, "bl17") for step in made.swept.steps] == [
        [],
        [],
    ]
    (step, _) = made.swept.steps
    assert "not marked spare" in " ".join(refusals(step, facts, {}, "bl17"))
    mounted = host(replace(SDB, mounts=("/srv",)), SDC)
    assert "is mounted at /srv" in " ".join(refusals(step, mounted, spares, "bl17"))
    other = replace(step, argv=(*step.argv[:-1], "/sys/block/sdc/queue/scheduler"))
    assert "sdc, which is not part of the plan" in " ".join(refusals(other, facts, spares, "bl17"))


class Kernel:
    def __init__(self, said: str) -> None:
        self.said = said

    def run(self, argv, **_):
        return Ran(tuple(argv), 0, self.said.encode(), b"")


def test_what_is_in_force_is_read_of_each_disk():
    said = (
        "/sys/block/sdb/queue/scheduler:[none] mq-deadline\n/sys/block/sdb/queue/nr_requests:256\n"
        "/sys/block/cciss!c0d0/queue/scheduler:none\n/sys/block/cciss!c0d0/queue/nr_requests:64\n"
    )
    found = sysfs.read_queues(Kernel(said), ["/dev/sdb", "/dev/cciss/c0d0"])
    assert found == {
        "sdb": {"scheduler": "none", "nr_requests": "256"},
        "cciss!c0d0": {"scheduler": "none", "nr_requests": "64"},
    }
    wanted = plan(["kyber"]).swept.before_run("kyber", 0)
    assert before_runs.lacking(wanted, {"sdb": found["sdb"]}) == [
        "scheduler of sdb is none, not kyber"
    ]
    with pytest.raises(AgentError, match="/sys/block/sdd/queue/scheduler cannot be read") as error:
        sysfs.read_queues(Kernel(said), ["/dev/sdb", "/dev/sdd"])
    assert error.value.reason == Reason.BAD_FACTS


def test_settings_that_were_not_restored_are_named():
    facts = host(sysctls={"vm.swappiness": "10"}, governors={"policy0": "powersave"})
    kept = {"sysctl vm.swappiness": "60", "governor policy0": "performance", "sysctl vm.gone": "1"}
    assert _host_settings.not_restored(kept, facts) == [
        "sysctl vm.swappiness is 10, it was 60",
        "governor policy0 is powersave, it was performance",
    ]
    assert _host_settings.not_restored({"sysctl vm.swappiness": "10"}, facts) == []
