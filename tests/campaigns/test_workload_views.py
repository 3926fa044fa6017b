"""The pages of workloads: lists, points with their outstanding I/Os, forms and their errors."""

from __future__ import annotations

import pytest
from django.urls import reverse

from agents import options
from agents.drivers import registry
from benchlab.campaigns import workload_presets
from benchlab.campaigns.models import Workload
from benchlab.campaigns.services import create_workload

pytestmark = pytest.mark.django_db

TOY = {"name": "Deep", "option-rw": "read", "option-depth": "1 2 4", "option-seconds": "10"}
NEW = "/workloads/new/?tool=toy"


def test_the_list_shows_sweep_and_points(web, workload):
    answer = web.get(reverse("workload-list"))
    (row,) = answer.context["rows"]
    assert (row["workload"], row["points"], row["sweep"]) == (workload, 3, [("depth", "1 2 4")])


def test_the_list_costs_the_same_queries_for_many(web, team, user, django_assert_num_queries):
    for number in range(4):
        create_workload(team=team, user=user, name=f"w{number}", tool="toy", options={})
    with django_assert_num_queries(6):  # session, user, workloads, imported ones, tags, the top bar
        web.get(reverse("workload-list"))


def test_the_page_shows_every_point_with_its_outstanding(web, workload):
    answer = web.get(reverse("workload-detail", args=[workload.pk]))
    assert answer.context["points"] == [("depth 1", 1), ("depth 2", 2), ("depth 4", 4)]


def test_a_workload_whose_tool_is_gone_still_has_a_page(web, workload):
    Workload.objects.update(tool="gone")
    answer = web.get(reverse("workload-detail", args=[workload.pk]))
    assert "create the workload again" in answer.text
    assert web.get(reverse("workload-list")).status_code == 200


def test_another_team_sees_nothing(other_web, workload):
    assert other_web.get(reverse("workload-detail", args=[workload.pk])).status_code == 404
    assert other_web.get(reverse("workload-list")).context["rows"] == []


def test_several_values_make_a_sweep(web, team):
    web.post(NEW, {**TOY, "option-direct": "on"})
    made = Workload.objects.get()
    assert (made.team, made.tool, made.sweep) == (team, "toy", {"depth": [1, 2, 4]})
    assert made.options == {"rw": "read", "seconds": 10, "direct": True}


def test_a_box_that_is_not_ticked_is_off(web):
    web.post(NEW, TOY)
    assert Workload.objects.get().options["direct"] is False


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"option-depth": "1 two"}, "is not a whole number"),
        ({"option-depth": "1 0"}, "Workload Deep at depth 0: depth: 0 is below 1"),
        ({"option-rw": "sideways"}, "is not one of read, write"),
        ({"option-depth": "2 2"}, "2 is listed twice"),
        ({"name": ""}, "This field is required"),
    ],
)
def test_what_the_driver_refuses_is_said_and_not_stored(web, change, says):
    answer = web.post(NEW, {**TOY, **change})
    assert says in answer.text and not Workload.objects.exists()


def test_an_unknown_tool_is_404(web):
    assert web.get("/workloads/new/?tool=tape").status_code == 404
    assert web.post(reverse("workload-new"), {"preset": "tape"}).status_code == 404


def test_without_a_tool_the_list_offers_them(web):
    assert web.get(reverse("workload-new"))["Location"] == reverse("workload-list")


@pytest.fixture
def real_tools(monkeypatch, toys):
    from agents import tools

    monkeypatch.setattr(registry, "all_tools", lambda: registry.load_drivers(tools))


@pytest.mark.parametrize("preset", workload_presets.PRESETS.values(), ids=workload_presets.PRESETS)
def test_a_preset_is_one_click(web, real_tools, preset):
    answer = web.post(reverse("workload-new"), {"preset": preset.slug})
    made = Workload.objects.get()
    assert answer["Location"] == reverse("workload-detail", args=[made.pk])
    assert (made.name, made.sweep) == (preset.name, preset.sweep)
    assert (
        web.post(reverse("workload-new"), {"preset": preset.slug})["Location"] == answer["Location"]
    )
    assert web.get(answer["Location"]).context["points"]


@pytest.mark.parametrize("preset", workload_presets.PRESETS.values(), ids=workload_presets.PRESETS)
def test_a_preset_filled_in_and_saved_is_the_preset(web, real_tools, preset):
    """The form shows every option so that reading it back gives the same."""
    form = web.get(reverse("workload-new") + f"?preset={preset.slug}").context["form"]
    shown = {f"option-{name}": form[name].value() for name in form.fields}
    typed = {name: value for name, value in shown.items() if value not in (None, False)}
    web.post(f"/workloads/new/?tool={preset.tool}", {"name": "again", **typed})
    made = Workload.objects.get()
    kind = registry.tool(preset.tool).Options
    assert made.sweep == preset.sweep
    first = {name: values[0] for name, values in preset.sweep.items()}
    assert options.build_options(kind, {**made.options, **first}) == options.build_options(
        kind, {**preset.options, **first}
    )


def test_a_job_file_is_pasted(web, real_tools):
    job = "[global]\nrw=randread\nbs=4k\niodepth=8\nruntime=10\ntime_based\nsize=1g\n[one]\n"
    form = web.get("/workloads/new/?tool=fio").context["form"]
    typed = {f"option-{n}": form[n].value() for n in form.fields if form[n].value()}
    web.post("/workloads/new/?tool=fio", {"name": "mine", **typed, "option-job_file": job})
    made = Workload.objects.get()
    assert made.options["job_file"].splitlines() == job.splitlines()
    assert "iodepth=8" in web.get(reverse("workload-detail", args=[made.pk])).text


def test_a_copy_is_the_form_filled_in(web, other_web, workload):
    answer = web.get(reverse("workload-new"), {"copy": workload.pk})
    assert answer.context["name_form"]["name"].value() == "Copy of Reads"
    assert answer.context["form"]["depth"].value() == "1 2 4"
    assert f"?copy={workload.pk}" in web.get(reverse("workload-detail", args=[workload.pk])).text
    assert other_web.get(reverse("workload-new"), {"copy": workload.pk}).status_code == 404
