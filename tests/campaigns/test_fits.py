"""A run that cannot fit is refused when the campaign is made, and by the plan; what it may not read is told."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from agents.drivers import registry
from benchlab.campaigns.estimates import estimate
from benchlab.campaigns.models import Workload
from benchlab.campaigns.services import Selection
from benchlab.engine.new_runs import create_campaign
from tests.campaigns.conftest import make_spare

pytestmark = pytest.mark.django_db
GIB = 1 << 30


@pytest.fixture(autouse=True)
def real_drivers(monkeypatch, toys):
    from agents import layers, tools

    monkeypatch.setattr(registry, "all_tools", lambda: registry.load_drivers(tools))
    monkeypatch.setattr(registry, "all_layers", lambda: registry.load_drivers(layers))


def fio(team, **options):
    return Workload.objects.create(team=team, name="W", tool="fio", options=options, sweep={})


def test_a_tebibyte_on_two_gibibytes_is_refused_with_numbers(team, user, host, raw):
    make_spare(host, size=2 * GIB)
    given = {"team": team, "user": user, "name": "c", "question": "", "hosts": [host]}
    with pytest.raises(ValidationError, match=r"needs 1,099,511,627,776 B .* of 2,147,483,648 B"):
        create_campaign(
            **given, topologies=[raw], workloads=[fio(team, size=1 << 40)], repeats=1,
            order="as_written", seed=1,
        )  # fmt: skip


def test_the_wizard_tells_of_reads_that_measure_nothing(team, host, raw, directory):
    make_spare(host)
    load = fio(team, rw="randread", size=GIB // 2)
    told = [
        w
        for w in estimate(Selection([host], [raw], [load], 3)).warnings
        if "nothing was written" in w
    ]
    assert len(told) == 1 and "Raw SSD" in told[0]
    load.options = {"rw": "randwrite", "size": GIB // 2}
    assert "nothing was written" not in " ".join(
        estimate(Selection([host], [raw], [load], 3)).warnings
    )
