"""What an operator with bad intent puts into the newest drivers' options, and where a viewer of another team knocks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents import options as driver_options
from agents import registry
from agents.contracts import AgentError, OptionsError, Target
from agents.protocols import Layer
from benchlab.campaigns import cost
from benchlab.runs.models import Attempt
from benchlab.team.models import Team
from tests.charts import made

HOSTILE: tuple[Any, ...] = (
    "/etc/shadow", "../../etc/shadow", "$(reboot)", "`reboot`", "; reboot", "a\nreboot", "a\0b", "--help", "-h",
    "--key-file=/dev/sda", "--header /dev/sda", "--file-extra-flags=/etc/x", "aes-xts-plain64 --debug",
    "capi:xts(aes)-plain64",
    ":32:logon:mykey", "/dev/sda", "", " ", "é", "x" * 10_000, "NaN", "1e9", "0x10", True,
    False, None, -1, 0, 2**70, 1.5,
    float("nan"), float("inf"), [], ["luks2"], {"a": 1},
)  # fmt: skip


def fields() -> list[Any]:
    drivers: list[Any] = [registry.layer("dm_crypt"), registry.tool("sysbench")]
    return [(driver, name) for driver in drivers for name in driver.Options.__dataclass_fields__]


@pytest.mark.parametrize(
    ("driver", "name"), fields(), ids=lambda one: one if isinstance(one, str) else one.LABEL
)
def test_no_option_of_the_newest_drivers_takes_a_word_of_ones_own(driver, name):
    """What passes is one of the choices, a number in its bounds, or a switch; never a text that was not listed."""
    plain = getattr(driver.Options(), name)
    for value in HOSTILE:
        try:
            built = driver_options.build(driver.Options, {name: value})
        except OptionsError as error:
            assert len(str(error)) < 9000, len(str(error))
            continue
        now = getattr(built, name)
        assert type(now) is type(plain), (name, value)
        field = driver.Options.__dataclass_fields__[name]
        if isinstance(now, str):
            assert now in field.metadata["choices"], (name, value)
        elif isinstance(now, int) and not isinstance(now, bool):
            assert 0 <= now < (2**31 if field.metadata.get("depth") else 2**63), (name, value)


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("fio", {"iodepth": 2**31 - 1, "numjobs": 2}),
        ("fio", {"iodepth": 2**20, "numjobs": 2**20}),
        ("sysbench", {"threads": 2**31 - 1, "io_mode": "async", "async_backlog": 128}),
    ],
)
def test_more_outstanding_than_can_be_stored_is_told(tool, given):
    """Each option alone would pass; the sum was the database's to refuse, with an internal error."""
    target = Target("bl17", mount="/mnt/benchlab/bl17", size=1 << 40)
    try:
        built = driver_options.build(registry.tool(tool).Options, given)
        found = cost._of_point(tool, built, target)
    except AgentError as error:
        assert "outstanding" in str(error) or any(name in str(error) for name in given)
        return
    assert (found.outstanding or 0) < 2**31


def test_a_key_is_in_no_word_that_anybody_reads():
    """Neither the plan's text nor a process list nor the log has one: it is drawn on the host, by the command."""
    layer: Layer[Any] = registry.layer("dm_crypt")
    script = next(iter(layer.SCRIPTS))  # type: ignore[attr-defined]
    assert "/dev/urandom" in script and "--key-file -" in script
    named = [line for line in script.splitlines() if "$key" in line]
    assert all(line.startswith(('echo "$key" | cryptsetup', "[ ${#key}")) for line in named), named
    assert not any(word in script for word in ("set -x", "export", "tee", ">", "env "))


@pytest.fixture
def both(team, other_user):
    """The same was measured by two teams: equal fingerprints, equal names of workloads, and each host's own name."""
    found = {}
    for one, name in ((team, "ours"), (Team.objects.get(name="Others"), "theirs")):
        host = made.host(one, f"host-{name}")
        campaign, load = made.campaign(one, f"campaign-{name}"), made.workload(one, "randread")
        layouts = [
            made.done_layout(campaign, host, made.topology(one, f"{n}-{name}")) for n in ("A", "B")
        ]
        runs = [made.finished(campaign, layout, load, depth, repeat, 1000.0 * depth)
                for layout in layouts for depth in (1, 2) for repeat in (1, 2, 3)]  # fmt: skip
        Attempt.objects.filter(pk__in=[run.pk for run in runs]).update(fingerprint="f" * 64)
        found[name] = campaign, runs, layouts
    return found


PLACES = (
    "/api/verdicts/?campaign={campaign}",
    "/api/history/?run={run}",
    "/api/history/?run={run}&without=kernel",
    "/runs/{run}/history/",
    "/runs/{run}/history/?without=kernel",
    "/runs/{run}/history.json",
    "/compare/?campaign={campaign}",
    "/explore/?campaign={campaign}",
    "/explore/figure.json?campaign={campaign}",
    "/explore/numbers.csv?campaign={campaign}",
    "/explore/?campaign={own}&campaign={campaign}&x=iops&y=lat.mean&facet=line",
    "/explore/?campaign={own}&where=campaign_id = {campaign}",
    "/compare/?campaign={own}&campaign={campaign}",
    "/api/verdicts/?campaign={own}&campaign={campaign}",
    "/api/verdicts/?campaign={own}&baseline={topology}",
    "/api/verdicts/?campaign={own}&topology={topology}",
    "/api/verdicts/?campaign={own}&host={host}",
    "/compare/?campaign={own}&topology={topology}",
    "/compare/?campaign={own}&baseline={topology}",
    "/campaigns/{own}/?baseline={topology}",
    "/api/history/?run={mine}",
    "/runs/{mine}/history/",
    "/runs/{mine}/history.json",
)


@pytest.mark.django_db
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("known", [True, False])
def test_another_teams_results_are_nowhere(web, both, place, known):
    """Theirs and what never was answer alike, and nothing of theirs is told beside ours."""
    campaign, runs, layouts = both["theirs"]
    own, mine, _ = both["ours"]
    there = {"campaign": campaign.pk, "run": runs[0].run_id, "topology": layouts[0].topology_id,
             "host": layouts[0].host_id}  # fmt: skip
    if not known:
        there = dict.fromkeys(there, 10**9)
    answer = web.get(place.format(**there, own=own.pk, mine=mine[0].run_id))
    assert answer.status_code in (200, 302, 400, 404), place
    assert "theirs" not in answer.text, place
    strange = {str(run.run_id) for run in runs}
    if answer.status_code == 200 and "json" in answer["Content-Type"]:
        told = json.dumps(answer.json())
        assert not any(f'"run": {pk},' in told or f"/runs/{pk}/" in told for pk in strange), place
    else:
        assert not any(f"/runs/{pk}/" in answer.text for pk in strange if f"/runs/{pk}/" not in place.format(
            **there, own=own.pk, mine=mine[0].run_id)), place  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize(
    "place", [place for place in PLACES if "{own}" not in place and "{mine}" not in place]
)
def test_theirs_and_what_never_was_answer_alike(web, both, place):
    campaign, runs, _ = both["theirs"]
    theirs = web.get(place.format(campaign=campaign.pk, run=runs[0].run_id))
    never = web.get(place.format(campaign=10**9, run=10**9))
    assert theirs.status_code == never.status_code
    assert theirs.status_code != 200 or place.startswith(
        ("/compare/", "/explore/", "/api/verdicts/")
    )


@pytest.mark.django_db
@pytest.mark.parametrize("place", PLACES)
def test_a_guest_gets_none_of_them(client, both, place):
    """Without a log-in, with or without a share's link in hand, these are no pages of a share."""
    campaign, runs, layouts = both["ours"]
    answer = client.get(place.format(campaign=campaign.pk, run=runs[0].run_id, topology=layouts[0].topology_id,
                                     host=layouts[0].host_id, own=campaign.pk, mine=runs[0].run_id))  # fmt: skip
    assert answer.status_code in (302, 401, 403) and "ours" not in answer.text
