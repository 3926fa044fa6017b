"""Stages by form: added, moved with their layers, checked, stored and shown."""

from __future__ import annotations

import pytest
from django.urls import reverse

from agents.layers import md
from benchlab.topologies.models import Topology
from benchlab.web.driver_forms import DriverForm

pytestmark = pytest.mark.django_db
# What a browser sends of fields that nobody touched.
DEFAULTS = {
    f"layer0-{name}": value
    for name, value in DriverForm(md.Options, prefix="x").initial.items()
    if value is not False
}
MD = {**DEFAULTS, "layer0-level": "5", "layer0-data-role": "hdd", "layer0-data-count": "3",
      "layer0-spare-role": "hdd", "layer0-spare-count": "0"}  # fmt: skip
STAGE = {"stage_layer": ["1"], "stage0-data-role": "hdd", "stage0-data-count": "1",
         "stage0-spare-role": "hdd", "stage0-spare-count": "0"}  # fmt: skip


def post(web, **more):
    given = {"name": "raid", "kind": ["md", "filesystem"], **MD, "layer1-type": "ext4", **more}
    return web.post(reverse("topology-new"), given)


def test_a_stage_is_added_saved_and_shown(web):
    page = post(web, do="grow 0").content.decode()
    assert "Stage 1: layer 1" in page and 'name="stage0-data-count" value="1"' in page
    assert post(web, **STAGE, **{"stage0-during": "on"}, save="1").status_code == 302
    made = Topology.objects.get()
    assert made.stages == [
        {
            "layer": 1,
            "options": {},
            "devices": [{"use": "data", "role": "hdd", "count": 1}],
            "during": True,
        }
    ]
    shown = web.get(reverse("topology-detail", args=[made.pk])).content.decode()
    assert "How it grows" in shown and "during growth 1" in shown
    edit = web.get(reverse("topology-edit", args=[made.pk])).content.decode()
    assert "Stage 1: layer 1" in edit and "checked" in edit


def test_a_stage_goes_with_its_layer(web):
    page = post(web, **STAGE, do="remove 0").content.decode()
    assert "Stage 1" not in page
    assert "Stage 1: layer 1" in post(web, **STAGE, do="remove 1").content.decode()


def test_a_stage_moves_with_its_layer(web):
    assert "Stage 1: layer 2" in post(web, **STAGE, do="move 0 1").content.decode()


def test_a_stage_can_be_removed(web):
    assert "Stage 1" not in post(web, **STAGE, do="drop 0").content.decode()


def test_a_stage_without_disks_is_refused_and_stays_on_the_page(web):
    wrong = STAGE | {"stage0-data-count": "-1"}
    page = post(web, **wrong, save="1").content.decode()
    assert "greater than or equal to 0" in page and "Stage 1: layer 1" in page
    assert not Topology.objects.exists()


def test_the_first_resync_is_measured_only_where_there_is_one(web):
    answer = post(web, measure_resync="on", save="1")
    assert answer.status_code == 302, answer.context["form"].errors or [
        layer.options.errors for layer in answer.context["draft"].layers
    ]
    assert Topology.objects.get().measure_resync
    given = {"name": "dir", "kind": ["directory"], "layer0-path": "/var/tmp/x",
             "measure_resync": "on", "save": "1"}  # fmt: skip
    page = web.post(reverse("topology-new"), given).content.decode()
    assert "No layer of this topology has a first resync" in page


def test_a_stage_of_a_layer_that_cannot_grow_is_said_by_the_service(web):
    assert "Stage" not in post(web, stage_layer=["2"], do="grow 9").content.decode()
