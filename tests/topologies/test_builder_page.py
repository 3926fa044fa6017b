"""The builder's page: without script every act is a button of the form, and nothing that was typed is lost."""

from __future__ import annotations

import pytest
from django.urls import reverse

from benchlab.runs.models import Layout
from benchlab.topologies.models import Topology
from benchlab.topologies.services import create_topology
from tests.campaigns.conftest import make_host, make_spare
from tests.topologies.drafts import built
from tests.topologies.no_script import Visitor

pytestmark = pytest.mark.django_db


@pytest.fixture
def new(web) -> Visitor:
    return Visitor(web, reverse("topology-new"))


def stored() -> list[tuple[str, dict[str, tuple[str, int]]]]:
    return [
        (entry["kind"], {one["use"]: (one["role"], one["count"]) for one in entry["devices"]})
        for entry in Topology.objects.get().stack
    ]


def test_an_lvm_cache_is_built_from_nothing_by_buttons_alone(new):
    new.press("LVM", "add 0 lvm")
    new.type(name="Cached stripe", layer0__data__count="3", layer0__stripe_size="4k")
    new.press("LVM cache")
    new.press("File system", "add 2 filesystem")
    new.type(layer2__mount_options="noatime", layer1__mode="writethrough")
    new.press("Save")
    assert new.answer.status_code == 302, new.answer.context["verdict"]
    assert stored() == [
        ("lvm", {"data": ("hdd", 3)}),
        ("lvm_cache", {"cache": ("ssd", 1)}),
        ("filesystem", {}),
    ]
    made = Topology.objects.get()
    assert made.name == "Cached stripe"
    assert made.stack[0]["options"]["stripe_size"] == 4096
    assert made.stack[1]["options"]["mode"] == "writethrough"
    assert made.stack[2]["options"]["mount_options"] == ["noatime"]


def test_a_cached_stack_is_made_without_its_cache_too(new, web):
    new.press("LVM", "add 0 lvm")
    assert "Also make it" not in new.answer.text
    new.press("LVM cache")
    new.press("File system", "add 2 filesystem")
    assert "Also make it without the cache" in new.answer.text
    new.type(name="n" * 90, layer0__data__count="3")
    new.tick("also")
    new.press("Move up", "move 0 1")
    new.press("Undo")
    new.press("Save")
    assert new.answer.status_code == 302, new.answer.context["verdict"]
    plain, cached = sorted(Topology.objects.all(), key=lambda row: len(row.stack))
    assert [entry["kind"] for entry in plain.stack] == ["lvm", "filesystem"]
    assert plain.stack[0] == cached.stack[0] and plain.stack[1] == cached.stack[2]
    assert cached.name == "n" * 90 and plain.name == "n" * 81 + ", without the cache"
    page = web.get(new.answer.url)
    assert f"{cached.name} and {plain.name} are saved." in page.text


def test_a_pool_is_made_without_its_log_and_a_name_that_is_taken_gets_a_number(new, team, user):
    taken = "pool, without the log device"
    create_topology(team=team, user=user, name=taken, stack=built("add 0 raw"))
    new.press("", "add 0 zpool")
    new.type(name="pool", layer0__data__count="2", layer0__log__count="1", layer0__log__role="ssd")
    new.press("", "add 1 zfs")
    new.tick("also")
    new.press("Save")
    assert new.answer.status_code == 302, new.answer.context["verdict"]
    made = Topology.objects.get(name=f"{taken} 2")
    assert [one["use"] for one in made.stack[0]["devices"]] == ["data"]
    assert len(Topology.objects.get(name="pool").stack[0]["devices"]) == 2


def test_nothing_is_saved_where_the_variant_cannot_be(new, monkeypatch):
    monkeypatch.setattr(
        "benchlab.pages.topologies.builder.Variant.variant_name", lambda self, of: ""
    )
    new.press("LVM", "add 0 lvm")
    new.press("LVM cache")
    new.press("File system", "add 2 filesystem")
    new.type(name="n")
    new.tick("also")
    new.press("Save")
    assert new.answer.status_code == 200
    assert not Topology.objects.exists()


def kinds(new: Visitor) -> list[str]:
    return [layer.kind for layer in new.answer.context["draft"].layers]


def test_undo_brings_back_what_was_typed_before_the_last_button_and_once_more_forward(new):
    assert "Undo" not in new.answer.text
    new.press("LVM", "add 0 lvm")
    new.press("File system", "add 1 filesystem")
    new.type(name="n", layer0__data__count="3", layer0__stripe_size="4k")
    new.press("Remove", "remove 0")
    assert kinds(new) == ["filesystem"]
    new.press("Check what is typed")
    new.type(name="n2")
    new.press("Undo")
    assert kinds(new) == ["lvm", "filesystem"]
    assert new.answer.context["draft"].layers[0].typed()["devices"][0]["count"] == "3"
    new.press("Undo")
    assert kinds(new) == ["filesystem"]
    new.press("Undo")
    new.press("Save")
    assert stored()[0] == ("lvm", {"data": ("hdd", 3)})
    made = Topology.objects.get()
    assert made.name == "n2"  # no button changes a name
    assert made.stack[0]["options"]["stripe_size"] == 4096


@pytest.mark.parametrize("before", ["kind=nosuch", "kind", "%ff=%00", "a=" + "b" * 9000])
def test_what_no_page_sent_as_before_undoes_to_no_error(web, before):
    given = {"kind": ["raw"], "do": "undo", "before": before}
    answer = web.post(reverse("topology-new"), given)
    assert answer.status_code == 200


def test_raw_first_and_then_what_it_stands_on(new):
    new.type(name="n")
    new.press("Raw disk")
    assert new.answer.context["verdict"].word == "Valid"
    assert "A tool works on the volume as it is" in new.answer.text
    new.press("LVM", "add 0 lvm")
    new.press("Move up")  # LVM, which the button just added, is the one that is open
    new.press("Move down", "move 1 0")
    new.press("Save")
    assert stored() == [("lvm", {"data": ("hdd", 1)}), ("raw", {})]


def test_what_is_invalid_shows_its_remedy_and_the_button_mends_it(new):
    new.type(name="raid")
    new.press("md RAID")
    new.type(layer0__level="6", layer0__data__count="3")
    new.press("Check what is typed")
    assert "RAID 6 needs 4 members at least, there are 3" in new.answer.text
    assert new.answer.context["verdict"].word == "Not valid"
    new.press("Use 4 hdd for data")
    assert new.answer.context["verdict"].word == "Valid"
    assert new.answer.context["form"]["name"].value() == "raid"
    new.press("Save")
    assert stored() == [("md", {"data": ("hdd", 4)})]


def test_a_wrong_option_is_said_at_its_field_with_what_was_typed(new):
    new.press("LVM", "add 0 lvm")
    new.type(layer0__stripe_size="65537", layer0__data__role="My SSD")
    new.press("Check what is typed")
    field = new.answer.context["draft"].layers[0].options["stripe_size"]
    assert field.value() == "65537" and field.errors == ["stripe_size: 65537 is not a power of two"]
    assert "Use a short word such as ssd or hdd" in new.answer.text
    assert 'href="#id_layer0-stripe_size"' in new.answer.text
    new.press("Set it to 64KiB")
    assert not new.answer.context["verdict"].option_errors
    assert new.answer.context["draft"].layers[0].disks[0]["role"].value() == "My SSD"


def test_what_was_typed_wrongly_outlives_a_button(new):
    new.press("LVM", "add 0 lvm")
    new.type(layer0__size="many", layer0__data__count="x", description="so far")
    new.press("File system", "add 1 filesystem")
    layer = new.answer.context["draft"].layers[0]
    assert (layer.options["size"].value(), layer.disks[0]["count"].value()) == ("many", "x")
    assert new.answer.context["form"]["description"].value() == "so far"


def test_a_choice_of_sizes_stays_as_it_was_stored(web, team, user):
    """Shown as 4 KiB, it was none of the list's and became its first."""
    stack = built("add 0 dm_crypt", "set 0 sector_size 4096")
    row = create_topology(team=team, user=user, name="c", stack=stack)
    edit = Visitor(web, reverse("topology-edit", args=[row.pk]))
    edit.press("Save")
    row.refresh_from_db()
    assert row.stack[0]["options"]["sector_size"] == 4096


def test_a_removed_layer_leaves_its_disks_to_the_next(new):
    new.press("md RAID")
    new.press("LVM", "add 1 lvm")
    new.press("Remove", "remove 0")
    [layer] = new.answer.context["draft"].layers
    assert (layer.kind, layer.disks[0]["count"].value()) == ("lvm", 4)
    new.press("Remove", "remove 0")
    assert new.answer.context["verdict"].word == "Empty"


def test_one_disk_more_and_one_fewer(new):
    new.press("LVM", "add 0 lvm")
    new.press("+", "disks 0 data 5")
    assert new.answer.context["draft"].layers[0].disks[0]["count"].value() == 5
    new.press("−", "disks 0 data 4")
    assert new.answer.context["wants"] == {"hdd": 4}


def test_enter_in_a_field_neither_saves_nor_adds(new):
    new.press("LVM", "add 0 lvm")
    assert new.form.buttons[0][0] == "check"
    new.type(name="n")
    new.press("Check what is typed")
    assert new.answer.status_code == 200 and not Topology.objects.exists()
    assert [layer.kind for layer in new.answer.context["draft"].layers] == ["lvm"]


def test_typing_answers_with_what_changes_elsewhere_and_no_field(htmx):
    post = {
        "kind": ["lvm"],
        "layer0-data-role": "hdd",
        "layer0-data-count": "4",
        "layer0-type": "striped",
        "layer0-stripes": "3",
    }
    answer = htmx.post(reverse("topology-new"), post)
    assert 'id="builder-canvas"' in answer.text and "<html" not in answer.text
    for part in ("state", "fits", "computed", "verdict"):
        assert f'id="builder-{part}"' in answer.text
    assert 'name="layer0-stripes"' not in answer.text
    assert (
        "cannot hold a striped volume 3 wide" in answer.text and "Set stripes to 0" in answer.text
    )
    assert answer.text.count('hx-swap-oob="true"') > 8


def test_a_button_answers_with_the_whole_builder(htmx):
    answer = htmx.post(reverse("topology-new"), {"kind": ["raw"], "do": "add 1 filesystem"})
    assert "<html" not in answer.text and 'id="topology-builder"' in answer.text
    assert 'id="lay-1"' in answer.text and answer.text.count("autofocus") == 1


@pytest.mark.parametrize("do", ["", "add 9 raw", "add 0 tape", "grow 9", "drop 0", "explode"])
def test_what_is_no_button_changes_nothing(htmx, do):
    answer = htmx.post(reverse("topology-new"), {"kind": ["raw"], "do": do})
    assert [layer.kind for layer in answer.context["draft"].layers] == ["raw"]
    assert 'id="topology-builder"' in answer.text


@pytest.fixture
def lab(team):
    made = make_host(team, "lab1")
    for number in range(6):
        make_spare(made, f"sd{number}", "hdd")
    make_spare(made, "nvme0", "ssd")
    return made


def test_sizes_are_those_of_the_chosen_host(lab, new):
    assert new.answer.context["sized"] == lab
    new.press("LVM", "add 0 lvm")
    assert "sd0" in new.answer.text and "With the spare disks of lab1" in new.answer.text
    new.type(sized="")
    new.press("Check what is typed")
    assert new.answer.context["sized"] is None and "example disks" in new.answer.text


def test_hosts_that_fit_and_what_would_make_it_fit(lab, team, new):
    small = make_host(team, "small")
    for number in range(2):
        make_spare(small, f"sd{number}", "hdd")
    new.press("LVM", "add 0 lvm")
    said = {row.host.name: row.answer for row in new.answer.context["fits"].rows}
    assert said == {"lab1": "Fits", "small": "2 hdd short."}
    new.press("Make it 2 hdd")
    assert {row.answer for row in new.answer.context["fits"].rows} == {"Fits"}


def test_hosts_of_others_are_not_told(lab, other_web):
    there = Visitor(other_web, reverse("topology-new"))
    there.press("LVM", "add 0 lvm")
    assert "lab1" not in there.answer.text
    answer = other_web.post(reverse("topology-new"), {"kind": ["raw"], "sized": str(lab.pk)})
    assert answer.context["sized"] is None and "lab1" not in answer.text


def test_the_page_costs_the_same_queries_for_many_hosts(
    lab, team, web, django_assert_max_num_queries
):
    for number in range(5):
        make_host(team, f"h{number}")
    post = {"kind": ["raw"], "layer0-data-role": "hdd", "layer0-data-count": "1"}
    with django_assert_max_num_queries(12):
        web.post(reverse("topology-new"), {**post, "sized": str(lab.pk)})


def test_two_people_change_one_topology(web, team, user):
    row = create_topology(team=team, user=user, name="t", stack=built("add 0 raw"))
    url = reverse("topology-edit", args=[row.pk])
    mine, other = Visitor(web, url), Visitor(web, url)
    other.type(name="theirs")
    other.press("Save")
    mine.type(name="mine", layer0__data__role="ssd")
    mine.press("Save")
    assert "Somebody changed this topology since you opened it" in mine.answer.text
    assert mine.answer.context["form"]["name"].value() == "mine"
    row.refresh_from_db()
    assert row.name == "theirs"
    mine.press("Save")
    row.refresh_from_db()
    assert (row.name, row.stack[0]["devices"][0]["role"]) == ("mine", "ssd")
    assert not Layout.objects.exists()
