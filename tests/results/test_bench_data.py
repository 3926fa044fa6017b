"""The benchmarks' data and addresses still fit the tables and pages, at the smallest size."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from benchlab.runs.models import Measurement, Series
from benchlab.team import tokens
from benchlab.team.roles import Role
from tests.bench import bench_api, lab_around, lab_data, lab_lists

pytestmark = pytest.mark.django_db(transaction=True)  # it vacuums


@pytest.fixture
def person() -> User:
    return lab_data.person("bench")


@pytest.mark.night
@pytest.mark.usefixtures("worker_seen")  # /readyz is among the addresses
def test_a_lab_is_filled_and_every_list_answers(person):
    campaigns = lab_data.runs(person, lab_data.RUNS_EACH)
    assert Measurement.objects.count() == lab_data.RUNS_EACH * lab_data.FIGURES
    values = lab_data.series(campaigns, attempts=2, seconds=3)
    assert values == 3 * Series.objects.count()
    lab_around.fill(person, 2)
    api = Client(
        headers={"Authorization": f"Token {tokens.create_token(person, 'b', Role.OWNER)[1]}"}
    )
    look = bench_api.browser(person)
    addresses = [*lab_lists.api(api.get, person), *lab_lists.pages(look)]
    assert len(addresses) > 50
    for address in addresses:
        answer = (api.get if address.startswith("/api/") else look)(address)
        assert answer.status_code == 200, address
        assert len(b"".join(bench_api.parts(answer))), address


@pytest.mark.parametrize(("many", "rank"), [(20, 19), (10, 10), (21, 20), (100, 95), (1, 1)])
def test_the_95th_percentile_is_of_its_rank(many, rank):
    """Of ten values the ninth is the 90th."""
    assert bench_api.p95_of([float(n) for n in range(1, many + 1)]) == rank
    assert bench_api.LIST_ROUNDS >= 20
