"""Whole campaigns on a real Linux host: planned, guarded, built, measured, taken down, and the disks blank."""

from __future__ import annotations

import base64
from itertools import pairwise
from threading import Timer

import pytest

from benchlab.campaigns.models import Workload
from benchlab.charts.queries import read_groups
from benchlab.engine import commands
from benchlab.engine import tasks as engine
from benchlab.engine.checks import planning, previews
from benchlab.engine.new_runs import create_campaign
from benchlab.engine.phases import step_log
from benchlab.hosts import discovery, registration, spare_disks, ssh_access
from benchlab.hosts.models import Device, Host
from benchlab.runs.models import Attempt
from benchlab.topologies.models import Topology
from tests.rig.blank import assert_blank
from tests.rig.noise import XFS_WITHOUT_MAGIC
from tests.runs import drive

pytestmark = [pytest.mark.rig, pytest.mark.django_db(transaction=True)]

RAW = {"kind": "raw", "options": {}, "devices": [{"use": "data", "role": "ssd", "count": 1}]}
FIO = {"rw": "randrw", "size": 32 << 20, "runtime_s": 2, "iodepth": 4}
DD = {"block_size": 65536, "count": 64, "oflag": ["direct"]}


def register(rig_host, team, login, name="") -> Host:
    """As a person does it: a key, the fingerprint confirmed, the facts read. It is called as its user unless told."""
    name = name or login
    credential = registration.upload_credential(team, name, rig_host.key_path.read_text())
    host = registration.add_host(
        team, name, "127.0.0.1", credential, port=rig_host.port, user=login
    )
    ssh_access.offer_key(host)
    ssh_access.confirm_key(host, ssh_access.fingerprints(host)[1])
    discovery.read_facts(host)
    return host


@pytest.fixture
def lab(rig_host, team, user) -> Host:
    """The rig host with two disks marked spare."""
    host = register(rig_host, team, "root")
    for name in ("ubdb", "ubdc"):
        device = Device.objects.get(host=host, name=name)
        spare_disks.mark_spare(device, user, device.confirmation, "ssd")
    return host


@pytest.fixture
def make_campaign(lab, team, user):
    def make(stack, workloads, repeats=1, more=()):
        number = Topology.objects.count()
        topology = Topology.objects.create(team=team, name=f"t{number}", stack=stack)
        rows = [
            Workload.objects.create(
                team=team, name=f"{tool} {number}.{n}", tool=tool, options=options
            )
            for n, (tool, options) in enumerate(workloads)
        ]
        return create_campaign(
            team=team, user=user, name="c", question="", hosts=[lab], topologies=[topology, *more],
            workloads=rows, repeats=repeats, order="as_written", seed=1,
        )  # fmt: skip

    return make


def mounted(kind):
    return [RAW, {"kind": "filesystem", "options": {"type": kind}, "devices": []}]


@pytest.mark.parametrize(
    "stack",
    [
        [RAW],
        pytest.param(mounted("xfs"), marks=pytest.mark.covering),
        mounted("ext4"),
        mounted("btrfs"),
    ],
    ids=["raw", "xfs", "ext4", "btrfs"],
)
def test_a_campaign_leaves_figures_and_blank_disks(make_campaign, rig_host, stack):
    campaign = make_campaign(stack, [("fio", FIO), ("dd", DD)])
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign, 300)
    layout = campaign.layouts.get()
    assert (layout.phase, layout.outcome) == ("done", "succeeded"), (
        layout.reason_text,
        layout.trouble,
    )
    for attempt in Attempt.objects.select_related("run"):
        assert attempt.outcome == "succeeded", attempt.reason_text
        assert attempt.measurements.get(name="bandwidth").value
        assert int(attempt.meta["user"]) > 0, attempt.meta
        said = [bytes(one.content) for one in attempt.artifacts.filter(name="stderr")]
        assert not any(b"flush" in one for one in said), said
    used = Attempt.objects.get(run__tool="fio")
    # Over the whole run, and without the disk that the tool itself is read from when it first starts.
    disks = used.series.filter(metric="util").exclude(device="ubda")
    busy = {one.device: sum(v for v in one.values if v == v) for one in disks}
    busiest = max(busy, key=busy.__getitem__)
    assert busiest in {"ubdb", "ubdc"} and busy[busiest] > 0, busy
    assert_blank(rig_host, "ubdb", "ubdc")


@pytest.mark.covering
def test_a_disk_that_was_mounted_after_the_plan_is_not_touched(make_campaign, rig_host):
    campaign = make_campaign([RAW], [("dd", DD)])
    drive.plan_and_start(campaign)
    rig_host.ssh(
        "sh",
        "-c",
        "for d in ubdb ubdc; do mkfs.ext4 -q /dev/$d; mkdir -p /mnt/$d; mount /dev/$d /mnt/$d; "
        "echo precious >/mnt/$d/file; done",
    )
    try:
        drive.to_the_end(campaign)
        attempt = Attempt.objects.get()
        assert (attempt.outcome, attempt.reason) in {
            ("failed", "guard_refused"),
            ("failed", "plan_stale"),
        }, attempt.reason_text
        assert (
            rig_host.ssh("cat", "/mnt/ubdb/file", "/mnt/ubdc/file").stdout.split()
            == ["precious"] * 2
        )
    finally:
        rig_host.ssh("sh", "-c", "for d in ubdb ubdc; do umount /mnt/$d; wipefs -qa /dev/$d; done")


@pytest.mark.covering
def test_a_disk_that_only_the_kernel_knows_to_be_in_use_is_refused(make_campaign, rig_host):
    """Unmounted lazily, with a file open: no list of the host shows it. Nothing is written, and nothing is stuck."""
    rig_host.ssh(
        "sh",
        "-c",
        "for d in ubdb ubdc; do mkfs.ext4 -qF /dev/$d; mkdir -p /mnt/$d; mount /dev/$d /mnt/$d;"
        " echo precious >/mnt/$d/file; sync; nohup sleep 300 3</mnt/$d/file >/dev/null 2>&1 & umount -l /mnt/$d; done",
    )
    try:
        campaign = make_campaign([RAW], [("dd", DD)])
        drive.plan_and_start(campaign)
        drive.to_the_end(campaign)
        attempt, layout = Attempt.objects.get(), campaign.layouts.get()
        assert (attempt.outcome, attempt.reason) == ("failed", "guard_refused")
        assert "is in use by the kernel (EBUSY on exclusive open)" in attempt.reason_text
        assert (layout.phase, layout.outcome) == ("done", "failed"), layout.trouble
        assert not layout.steps.exclude(destroys=[]).exists()
        content = "for pid in $(pgrep -x sleep); do cat /proc/$pid/fd/3; done"
        assert rig_host.ssh("sh", "-c", content).stdout.split() == ["precious"] * 2
    finally:
        rig_host.ssh(
            "sh",
            "-c",
            "pkill -x sleep; for d in ubdb ubdc; do n=0; until wipefs -qa /dev/$d || [ $n -gt 50 ];"
            " do n=$((n + 1)); sleep 0.2; done; done",
        )


def test_a_disk_that_was_mounted_between_two_runs_is_not_written_to(
    make_campaign, rig_host, monkeypatch
):
    """The glance between runs sees it; the whole look that follows refuses."""
    # One thing per step, so that the mount comes in between
    monkeypatch.setattr(engine, "BUDGET_S", 0.0)
    campaign = make_campaign([RAW], [("dd", DD)], repeats=3)
    drive.plan_and_start(campaign)
    drive.until(campaign, lambda: Attempt.objects.filter(phase="done").count() == 2)
    assert campaign.layouts.get().glance
    node = planning.stored_plan(campaign.layouts.get()).claims[0].node
    rig_host.ssh("sh", "-c", f"mkfs.ext4 -q -F {node}; mount {node} /mnt; echo precious >/mnt/file")
    try:
        drive.until(campaign, lambda: Attempt.objects.filter(phase="done").count() == 3)
        last = Attempt.objects.latest("run__position")
        assert (last.outcome, last.started_at is None or last.argv) == ("failed", []), (
            last.reason_text
        )
        assert rig_host.ssh("cat", "/mnt/file").stdout == "precious\n"
    finally:
        rig_host.ssh("sh", "-c", f"umount /mnt; wipefs -qa {node}")
    drive.to_the_end(campaign)


def test_a_table_that_the_kernel_sees_in_noise_is_erased(make_campaign, rig_host):
    """Seen after wipefs of an xfs disk: no signature anywhere, and yet partitions."""
    noise = base64.b64encode(XFS_WITHOUT_MAGIC).decode()
    for name in ("ubdb", "ubdc"):
        rig_host.ssh(
            # While udev reads a disk it does not watch it: it would miss this write, and see no partitions.
            *(
                "sh",
                "-c",
                f"udevadm settle; base64 -d | dd of=/dev/{name} conv=fsync; udevadm settle",
            ),
            stdin=noise,
        )
        assert "part" in rig_host.ssh("lsblk", "-nro", "TYPE", f"/dev/{name}").stdout, (
            "it is no noise any more"
        )
    campaign = make_campaign([RAW], [("dd", DD)])
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign)
    layout = campaign.layouts.get()
    assert (layout.phase, layout.outcome) == ("done", "succeeded"), (
        layout.reason_text,
        layout.trouble,
    )
    used = planning.stored_plan(layout).claims[0].node
    assert_blank(rig_host, used.removeprefix("/dev/"))
    for name in ("ubdb", "ubdc"):
        rig_host.ssh(
            "sh", "-c", f"dd if=/dev/zero of=/dev/{name} bs=1M count=1 conv=fsync; udevadm settle"
        )


def test_a_second_topology_finds_the_disk_blank_and_goes_on(make_campaign, rig_host, lab, team):
    """The old file system was agreed to be lost; that the first layout wiped it does not make the second plan stale."""
    rig_host.ssh("mkfs.ext4", "-q", "/dev/ubdb")
    rig_host.ssh("mkfs.ext4", "-q", "/dev/ubdc")
    second = Topology.objects.create(team=team, name="second", stack=mounted("ext4"))
    campaign = make_campaign([RAW], [("dd", DD)], more=[second])
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign)
    found = campaign.layouts.values_list("outcome", flat=True)
    assert list(found) == ["succeeded"] * 2, list(campaign.layouts.values_list("reason_text"))
    used = {
        claim.node
        for layout in campaign.layouts.all()
        for claim in planning.stored_plan(layout).claims
    }
    assert len(used) == 1
    assert_blank(rig_host, *(node.removeprefix("/dev/") for node in used))
    for node in {"/dev/ubdb", "/dev/ubdc"} - used:
        assert "ext4" in rig_host.ssh("wipefs", "-n", node).stdout, "the other disk is as it was"
        rig_host.ssh("wipefs", "-qa", node)


def test_two_layouts_take_turns_on_the_same_two_disks(lab, team, user, rig_host):
    """ABBA: built A, B, B, A, each on disks that the one before left blank; both builds of one are alike."""
    disks = [{"use": "data", "role": "ssd", "count": 2}]
    rows = [
        Topology.objects.create(
            team=team, name=kind, stack=[{"kind": "lvm", "options": {"type": kind}, "devices": disks}]
        )
        for kind in ("striped", "linear")
    ]  # fmt: skip
    workload = Workload.objects.create(
        team=team, name="fio", tool="fio", options=FIO, sweep={"iodepth": [1, 4]}
    )
    campaign = create_campaign(
        team=team, user=user, name="turns", question="", hosts=[lab], topologies=rows,
        workloads=[workload], repeats=2, order="abba", seed=1,
    )  # fmt: skip
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign, 600)
    built = list(campaign.layouts.order_by("begun_at").select_related("topology"))
    said = [(one.reason_text, one.trouble) for one in built]
    assert [one.outcome for one in built] == ["succeeded"] * 4, said
    a, b = built[0].topology, built[1].topology
    assert [(one.topology, one.visit) for one in built] == [(a, 1), (b, 1), (b, 2), (a, 2)]
    assert all(one.ended_at <= then.begun_at for one, then in pairwise(built))
    used = [{claim.node for claim in planning.stored_plan(one).claims} for one in built]
    assert used == [{"/dev/ubdb", "/dev/ubdc"}] * 4
    attempts = Attempt.objects.filter(run__campaign=campaign).select_related("layout", "run")
    assert {one.outcome for one in attempts} == {"succeeded"} and len(attempts) == 8
    for line in read_groups(user, [campaign.pk]):
        assert [sample.visit for sample in line.samples] == [1, 2, 1, 2]  # of either depth
        assert not line.has_unlike_repeats, "what was rebuilt is the same set-up"
    assert_blank(rig_host, "ubdb", "ubdc")


def test_cancel_in_the_middle_leaves_blank_disks_and_no_process(make_campaign, rig_host):
    campaign = make_campaign(mounted("ext4"), [("fio", {**FIO, "runtime_s": 60})])
    drive.plan_and_start(campaign)
    drive.until(campaign, lambda: Attempt.objects.filter(phase="running").exists())
    commands.cancel_campaign(campaign)
    drive.to_the_end(campaign)
    assert campaign.layouts.get().outcome == "cancelled"
    assert rig_host.ssh("pgrep", "-x", "fio", check=False).stdout.strip() == ""
    assert_blank(rig_host, "ubdb", "ubdc")


def test_the_network_may_fail_during_a_run(make_campaign, rig_host):
    # Longer than a step's budget of 8 s: a shorter run may be over before anybody looks.
    campaign = make_campaign([RAW], [("fio", {**FIO, "runtime_s": 20})])
    drive.plan_and_start(campaign)
    drive.until(campaign, lambda: Attempt.objects.filter(phase="running").exists())
    rig_host.cut()
    try:
        layout = campaign.layouts.get()
        from benchlab.engine import tasks as engine

        engine.step_until_waiting(layout.pk)
    finally:
        rig_host.heal()
    drive.to_the_end(campaign, 240)
    attempt = Attempt.objects.get()
    assert attempt.outcome == "succeeded", attempt.reason_text
    assert_blank(rig_host, "ubdb", "ubdc")


CUT_S = 100.0  # longer than the connection is kept, and than a command waits for an answer


def test_the_network_may_fail_while_a_layout_is_built(make_campaign, rig_host, monkeypatch):
    """It is taken back and built anew; nobody is asked."""
    campaign = make_campaign(mounted("xfs"), [("fio", FIO)])
    drive.plan_and_start(campaign)
    begin, cut = step_log._log_start, list[Timer]()

    def begun(layout, kind, part, record):
        if record.argv[0] == "mkfs.xfs" and not cut:
            cut.append(Timer(CUT_S, rig_host.heal))
            rig_host.cut()
            cut[0].start()
        return begin(layout, kind, part, record)

    monkeypatch.setattr(step_log, "_log_start", begun)
    try:
        drive.to_the_end(campaign, 600)
    finally:
        cut[0].cancel()
        rig_host.heal()
    attempt, layout = Attempt.objects.get(), campaign.layouts.get()
    assert attempt.outcome == "succeeded", (attempt.reason_text, layout.reason_text)
    assert layout.rebuilds == 1
    said = " ".join(layout.transitions.values_list("reason", flat=True))
    assert "The partial layout is removed and rebuilt" in said
    assert "worker" not in said
    assert_blank(rig_host, "ubdb", "ubdc")


def test_a_user_with_sudo_builds_runs_and_takes_down(make_campaign, rig_host, lab):
    Host.objects.filter(pk=lab.pk).update(user="lab")
    campaign = make_campaign(mounted("xfs"), [("fio", FIO)])
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign, 240)
    attempt = Attempt.objects.get()
    assert attempt.outcome == "succeeded", attempt.reason_text
    assert attempt.meta["caches"] == "yes"
    assert_blank(rig_host, "ubdb", "ubdc")


def test_a_user_without_sudo_is_told_and_measures_in_a_directory(make_campaign, rig_host, lab):
    Host.objects.filter(pk=lab.pk).update(user="nosudo")
    lab.refresh_from_db()
    facts = discovery.facts_of(discovery.read_facts(lab))
    assert not facts.sudo
    raw = make_campaign([RAW], [("dd", DD)])
    previews.plan_draft(raw.layouts.get().pk)
    assert "sudo" in raw.layouts.get().plan_error
    directory = {"kind": "directory", "options": {"path": "/var/tmp/nosudo"}, "devices": []}
    campaign = make_campaign([directory], [("dd", DD)])
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign)
    attempt = Attempt.objects.get(run__campaign=campaign)
    assert attempt.outcome == "succeeded", attempt.reason_text
    assert attempt.meta["caches"] == "no"
