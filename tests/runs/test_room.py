"""The plan refuses a run that does not fit what its disks really give, with the numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents import layers
from agents.drivers import registry
from benchlab.campaigns.models import Run
from benchlab.engine.checks import previews
from benchlab.runs.models import Layout
from tests.runs.paper_host import paper, toy

__all__ = ["paper", "toy"]
pytestmark = pytest.mark.django_db(transaction=True)
RAW = {"kind": "raw", "options": {}, "devices": [{"use": "data", "role": "hdd", "count": 1}]}


@pytest.mark.parametrize(
    ("size", "said"), [(1 << 44, "Workload w: fio needs 17,592,186,044,416 B"), (1 << 20, "")]
)
def test_a_workload_larger_than_its_volume(make_layout, paper, monkeypatch, size, said):
    known = {**registry.load_drivers(layers), "toy": registry.all_layers()["toy"]}
    monkeypatch.setattr(registry, "all_layers", lambda: known)
    layout = make_layout(phase="draft", runs=1)
    Layout.objects.update(stack=[RAW])
    Run.objects.update(tool="fio", options={"size": size, "rw": "randread"})
    tools = dict.fromkeys(("wipefs", "blkdiscard", "dd", "sh", "fio"), "1")
    paper.facts = replace(paper.facts, tools=tools)
    previews.plan_draft(layout.pk)
    layout.refresh_from_db()
    assert layout.plan_error.startswith(said) if said else not layout.plan_error, layout.plan_error
