"""dynamo's console on a real host and a real layout, beside a dynamo that is simulated; then from afar."""

from __future__ import annotations

import base64
import io
import tarfile
from pathlib import Path

import pytest

from benchlab.campaigns.models import Workload
from benchlab.dynamo import dynamo_player
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts import spare_disks
from benchlab.hosts.models import Device
from benchlab.practice import machine
from benchlab.runs.models import Attempt
from benchlab.topologies.models import Topology
from tests.rig.blank import assert_blank
from tests.rig.test_campaigns import register
from tests.runs import drive

pytestmark = [pytest.mark.rig, pytest.mark.django_db(transaction=True)]
ROOT = Path(__file__).parents[2]
PLACE = "/opt/simulated"


def stack(kind):
    return [
        {"kind": "raw", "options": {}, "devices": [{"use": "data", "role": "ssd", "count": 1}]},
        {"kind": "filesystem", "options": {"type": kind}, "devices": []},
    ]


OPTIONS = {"binary": f"{PLACE}/dynamo", "size": 4 << 20, "runtime_s": 3, "ramp_s": 1}


@pytest.fixture
def lab(rig_host, team, user):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        simulated = sorted(path.name for path in (ROOT / "tests/agents").glob("dynamo_sim*.py"))
        for name in (
            "agents/__init__.py",
            "agents/dynamo",
            *(f"tests/agents/{n}" for n in simulated),
        ):
            tar.add(
                ROOT / name,
                name,
                filter=lambda member: None if "__pycache__" in member.name else member,
            )
    packed = base64.b64encode(buffer.getvalue()).decode()
    rig_host.ssh("sh", "-c", f"mkdir -p {PLACE} && base64 -d | tar -xzf - -C {PLACE}", stdin=packed)
    script = f'#!/bin/sh\nexec python3 {PLACE}/tests/agents/dynamo_sim.py "$@"\n'
    rig_host.ssh("sh", "-c", f"cat >{PLACE}/dynamo && chmod 755 {PLACE}/dynamo", stdin=script)
    made = register(rig_host, team, "root")
    device = Device.objects.get(host=made, name="ubdb")
    spare_disks.mark_spare(device, user, device.confirmation, "ssd")
    yield made
    rig_host.ssh("rm", "-rf", PLACE)


def test_the_host_tells_its_clock_rate(rig_host):
    """Without it no dynamo starts."""
    said = rig_host.ssh("grep", "-c", f"^cpu MHz.*: {machine.cpu_mhz()}$", "/proc/cpuinfo")
    assert said.stdout.strip() == "1"


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        ("beside dynamo, on the host", "ext4"),
        ("beside dynamo, on the host", "xfs"),
        ("in BenchLab, through SSH tunnels", "xfs"),
    ],
)
def test_a_sweep_on_a_real_layout(lab, rig_host, team, user, monkeypatch, way, kind):
    if "tunnels" in way:
        monkeypatch.setattr(dynamo_player, "has_python", lambda tools: False)
    campaign = create_campaign(
        team=team, user=user, name="c", question="", hosts=[lab],
        topologies=[Topology.objects.create(team=team, name=kind, stack=stack(kind))],
        workloads=[Workload.objects.create(
            team=team, name="8k", tool="dynamo", options=OPTIONS, sweep={"outstanding_ios": [1, 4]}
        )],
        repeats=1, order="as_written", seed=1,
    )  # fmt: skip
    drive.plan_and_start(campaign)
    drive.to_the_end(campaign, 300)
    layout = campaign.layouts.get()
    assert (layout.phase, layout.outcome) == ("done", "succeeded"), (
        layout.reason_text,
        layout.trouble,
    )
    for attempt in Attempt.objects.all():
        assert attempt.outcome == "succeeded", attempt.reason_text
        assert attempt.meta["console"] == way
        figures = dict(attempt.measurements.filter(labels={}).values_list("name", "value"))
        assert figures["iops"] == pytest.approx(1000, rel=0.1)
        assert figures["kernel.read.ios"] is not None
        assert attempt.series.filter(metric="util").exists()
    assert_blank(rig_host, "ubdb")
