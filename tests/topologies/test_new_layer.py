"""A layer is its file and its cases: pages and API know one that is added (what plans and guards it: tests/agents)."""

from __future__ import annotations

import pytest
from django.urls import reverse

from benchlab.topologies import plan_view
from benchlab.topologies.models import Topology
from tests.agents.new_layer import added as added  # a fixture
from tests.api.conftest import api as api  # a fixture
from tests.topologies.plans import layer, made, many_disks

pytestmark = pytest.mark.django_db

STACK = [layer("vdo", {"compression": False}, data=("hdd", 2)), layer("filesystem")]


def test_its_form_is_its_options(added, web):
    shown = web.post(
        reverse("topology-new"), {"name": "n", "kind": [], "do": f"add 0 {added}"}
    ).text
    assert "Compress each block" in shown and "What it claims to hold" in shown
    post = {"name": "vdo", "description": "", "kind": [added], "save": "1",
            "layer0-virtual_size": "4GiB", "layer0-data-role": "hdd", "layer0-data-count": "2"}  # fmt: skip
    assert web.post(reverse("topology-new"), post).status_code == 302
    [kept] = Topology.objects.get().stack
    assert kept["options"] == {"compression": False, "virtual_size": 4 << 30}
    assert "VDO" in web.get(reverse("topology-list")).text
    wrong = web.post(reverse("topology-new"), {**post, "layer0-virtual_size": "5000000001"}).text
    assert "virtual_size: must be a multiple of 4 MiB" in wrong


def test_the_api_describes_it_and_takes_it(added, api):
    [told] = [row for row in api.get("/api/layers/").json()["results"] if row["kind"] == added]
    assert told["label"] == "VDO" and told["options"]["properties"]["virtual_size"]["x-unit"] == "B"
    assert api.post("/api/topologies/", {"name": "vdo", "stack": STACK}).status_code == 201
    wrong = [{**STACK[0], "options": {"compress": True}}]
    refused = api.post("/api/topologies/", {"name": "no", "stack": wrong})
    assert refused.status_code == 400
    assert "no option 'compress'; known: compression, virtual_size" in refused.text


def test_its_commands_are_shown_before_they_run(added):
    host = many_disks()
    told = plan_view.view_plan(made(STACK, host), host)
    assert any("lvcreate" in row.text for row in told.commands)
