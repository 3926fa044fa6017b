"""A command's patterns are tried on a sample: what would be read, from which line, or what is wrong."""

from __future__ import annotations

import pytest
from django.urls import reverse

from agents import tools
from agents.drivers import registry
from benchlab.campaigns.models import Workload
from benchlab.pages.campaigns.views_workloads import try_extraction

pytestmark = pytest.mark.django_db

SAMPLE = "begun\nIOPS=1234, BW=4.8MiB/s\nIOPS=99\n<b>done</b>\n"
EXTRACT = "iops [op/s] = regex first: IOPS=([0-9]+)\nbandwidth [B/s] x 1048576 = regex: BW=([0-9.]+)MiB\r\n"
TYPED = {"name": "Mine", "option-command": "mytool", "option-extract": EXTRACT, "sample": SAMPLE}


@pytest.fixture(autouse=True)
def real_tools(monkeypatch, toys):
    monkeypatch.setattr(registry, "all_tools", lambda: registry.load_drivers(tools))


def tried(web, **changes):
    return web.post(reverse("workload-try"), {**TYPED, **changes}, headers={"HX-Request": "true"})


def test_what_would_be_read_is_shown_with_its_line(web, rf, user):
    request = rf.post("/", TYPED)
    request.user = user
    found = try_extraction(request)
    rows = [(row.name, row.value, row.unit, row.line) for row in found["rows"]]
    assert rows == [("iops", 1234.0, "op/s", 2), ("bandwidth", 4.8 * 1048576, "B/s", 2)]
    assert found["shown"] == [
        (1, "begun", ""),
        (2, "IOPS=1234, BW=4.8MiB/s", "iops, bandwidth"),
        (3, "IOPS=99", ""),
    ]
    text = tried(web).text
    assert "<html" not in text and 'id="try-result"' in text
    assert "1234 op/s" in text.replace(",", "") and "<td>iops, bandwidth</td>" in text


def test_trouble_is_said_at_its_line(web):
    answer = tried(web, **{"option-extract": "iops [op/s] = regex: IOPS=([0-9]+)"})
    assert "matches twice (lines 2, 3)" in answer.text
    assert "Not read" in answer.text


def test_markup_in_a_sample_is_text(web):
    answer = tried(web, **{"option-extract": "a [1] = regex: <b>(done)</b>"})
    assert "&lt;b&gt;done&lt;/b&gt;" in answer.text and "<b>done" not in answer.text


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sample": " \n"}, "Paste what the command prints"),
        ({"option-extract": "\n"}, "There is no line in extract"),
        ({"sample": "x" * 1_000_001}, "That is more than 1,000,000 characters"),
        ({"sample_of": "out.json"}, "reads stdout, which is missing"),
    ],
)
def test_what_cannot_be_tried_is_said(changes, says, web):
    assert says in tried(web, **changes).text


def test_without_javascript_the_whole_page_keeps_what_was_typed(web):
    answer = web.post(reverse("workload-try"), TYPED)
    assert "New command workload" in answer.text
    assert answer.context["form"]["command"].value() == "mytool"
    assert answer.context["form"]["extract"].value() == EXTRACT
    assert answer.context["name_form"]["name"].value() == "Mine"
    assert "1234" in answer.text and "errorlist" not in answer.text
    assert not Workload.objects.exists()


def test_only_the_command_has_the_box(web):
    assert "Try it" in web.get("/workloads/new/?tool=command").text
    assert "Try it" not in web.get("/workloads/new/?tool=dd").text


def test_a_command_is_saved_and_its_script_is_shown_as_a_script(web):
    form = web.get("/workloads/new/?tool=command").context["form"]
    typed = {f"option-{n}": form[n].value() for n in form.fields if form[n].value()}
    script = "set -e\r\nmytool --depth $BENCHLAB_OUTSTANDING"
    web.post(
        "/workloads/new/?tool=command",
        {"name": "mine", **typed, "option-command": script, "option-outstanding": "1 2 4"},
    )
    made = Workload.objects.get()
    assert made.sweep == {"outstanding": [1, 2, 4]}
    page = web.get(reverse("workload-detail", args=[made.pk]))
    assert page.context["texts"] == [("Command", made.options["command"])]
    assert [depth for _, depth in page.context["points"]] == [1, 2, 4]


def test_what_the_tool_refuses_is_said_at_saving(web):
    answer = web.post(
        "/workloads/new/?tool=command",
        {"name": "mine", "option-command": "x", "option-extract": "iops [ms] = regex: (1)"},
    )
    assert "unit &#x27;ms&#x27; is none of" in answer.text and not Workload.objects.exists()


def test_a_visitor_may_not_try(client):
    assert client.post(reverse("workload-try"), TYPED).status_code in (302, 401, 403)
