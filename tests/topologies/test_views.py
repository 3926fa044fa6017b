"""The pages of topologies: lists, the builder, presets and what a host lacks for them."""

from __future__ import annotations

import pytest
from django.urls import reverse

from benchlab.topologies.host_shapes import PRESETS
from benchlab.topologies.models import Topology
from benchlab.topologies.services import create_topology
from tests.campaigns.conftest import make_host, make_spare

pytestmark = pytest.mark.django_db

XFS = {
    "name": "xfs on SSD",
    "description": "",
    "kind": ["raw", "filesystem"],
    "layer0-data-role": "ssd",
    "layer0-data-count": "1",
    "layer1-type": "xfs",
    "layer1-mkfs_options": "",
    "layer1-mount_options": "noatime\nnodiratime",
    "save": "1",
}


@pytest.fixture
def topology(team, user) -> Topology:
    return create_topology(
        team=team, user=user, name="xfs", stack=PRESETS["xfs"].stack, description="One SSD"
    )


def test_the_list_shows_ours_and_the_presets(web, topology):
    answer = web.get(reverse("topology-list"))
    assert [row["topology"] for row in answer.context["rows"]] == [topology]
    assert "ssd × 1 › Raw disk › File system" in answer.text
    assert all(preset.name in answer.text for preset in PRESETS.values())


def test_an_empty_list_says_what_to_do(web):
    assert "No topologies yet" in web.get(reverse("topology-list")).text


def test_the_list_costs_the_same_queries_for_many(web, team, user, django_assert_num_queries):
    for number in range(5):
        create_topology(team=team, user=user, name=f"t{number}", stack=PRESETS["directory"].stack)
    # session, user, topologies, tags, hosts (and their disks, if any), the top bar
    with django_assert_num_queries(6):
        web.get(reverse("topology-list"))


def listed(client, **asked: object) -> str:
    return " ".join(client.get(reverse("topology-list"), asked).content.decode().split())


def test_presets_are_of_as_many_disks_as_a_host_has_spare(web, htmx, team, other_web):
    lab, small = make_host(team, "lab1"), make_host(team, "lab2")
    for number in range(7):
        make_spare(lab, f"sd{number}", "hdd")
    make_spare(lab, "nvme0", "ssd")
    for number in range(3):
        make_spare(small, f"sd{number}", "hdd")
    said = listed(web)  # the first that has any
    assert "LVM cache (writeback) over a stripe of 7, xfs" in said and "of 12" not in said
    assert "striped over 7 disks in 4 KiB pieces" in said
    assert "Takes 7 hdd, 1 ssd. Fits lab1." in said and "lab2 lacks 4 spare hdd" in said
    assert "zpool of 3 with SLOG" in listed(web, sized=small.pk)
    assert "lab2 lacks 1 spare ssd." in listed(web, sized=small.pk)
    assert "zpool of 12 with SLOG" in listed(web, sized="")
    assert "zpool of 12" in listed(other_web, sized=lab.pk)
    headers = {"HX-Target": "presets-part"}
    part = htmx.get(reverse("topology-list"), {"sized": small.pk}, headers=headers).text
    assert "<html" not in part and "zpool of 3" in part and 'id="presets-part"' in part


@pytest.mark.parametrize(
    ("disks", "made"),
    [
        ("7", 7),
        ("12", 12),
        ("2", 2),
        ("1", 12),
        ("0", 12),
        ("257", 12),
        ("x", 12),
        ("-3", 12),
        ("", 12),
    ],
)
def test_a_preset_is_made_of_the_disks_that_it_was_shown_with(web, disks, made):
    web.post(reverse("topology-new"), {"preset": "zpool-12-slog", "disks": disks})
    topology = Topology.objects.get()
    assert topology.name == f"zpool of {made} with SLOG"
    assert [one["devices"][0]["count"] for one in topology.stack[:2]] == [1, made]
    assert PRESETS["zpool-12-slog"].wants == {"ssd": 1, "hdd": 12}


def test_one_that_does_not_stretch_stays_as_it_is(web):
    web.post(reverse("topology-new"), {"preset": "raid0-2", "disks": "9"})
    assert Topology.objects.get().stack[0]["devices"][0]["count"] == 2


def test_a_preset_says_which_disks_a_host_lacks(web, other_web, team):
    lab = make_host(team, "lab1")
    make_host(team, "lab2")
    for number in range(4):
        make_spare(lab, f"sd{number}", "hdd")
    said = listed(web, sized="")
    assert "Takes 12 hdd, 1 ssd. " in said
    assert "lab1 lacks 8 spare hdd and 1 spare ssd." in said
    assert "Fits lab1." in said and "lab2 lacks 1 spare hdd" in said
    assert "lab1" not in other_web.get(reverse("topology-list")).content.decode()


def test_of_a_crowd_of_hosts_a_preset_names_few(web, team):
    """Sixty names on each of thirty cards would leave no room to read."""
    for number in range(20):
        make_spare(make_host(team, f"has{number:02}"), f"sd{number}", "ssd")
        make_host(team, f"empty{number:02}")
    text = web.get(reverse("topology-list"), {"sized": ""}).content.decode()
    cards = [" ".join(one.split()) for one in text.split("<article>")]
    [card] = [one for one in cards if "<h4>Raw SSD</h4>" in one]
    assert "Takes 1 ssd. Fits has00, has01, has02 and 17 more." in card
    assert "<summary>20 lack disks</summary>" in card and "<li>and 12 more</li>" in card
    assert card.count("lacks 1 spare ssd.") == 8
    [none] = [one for one in cards if "<h4>Raw hard disk</h4>" in one]
    assert "Fits" not in none and "<summary>39 more lack disks</summary>" in none


def test_another_team_sees_nothing(other_web, topology):
    assert other_web.get(reverse("topology-detail", args=[topology.pk])).status_code == 404
    assert other_web.get(reverse("topology-edit", args=[topology.pk])).status_code == 404
    assert other_web.get(reverse("topology-list")).context["rows"] == []


def test_nobody_is_sent_to_the_login(client, topology):
    answer = client.get(reverse("topology-detail", args=[topology.pk]))
    assert answer.status_code == 302 and answer["Location"].startswith("/login/")


def test_the_page_draws_the_stack(web, topology):
    answer = web.get(reverse("topology-detail", args=[topology.pk]))
    assert [box.label for box in answer.context["boxes"]] == ["File system", "Raw disk"]
    assert "data: 1 × ssd" in answer.text


@pytest.mark.parametrize("slug", PRESETS)
def test_a_preset_is_one_click_and_twice_is_once(web, team, slug):
    first = web.post(reverse("topology-new"), {"preset": slug})
    again = web.post(reverse("topology-new"), {"preset": slug})
    made = Topology.objects.get()
    assert (made.name, made.team) == (PRESETS[slug].name, team)
    assert first["Location"] == again["Location"] == reverse("topology-detail", args=[made.pk])


def test_an_unknown_preset_is_404(web):
    assert web.post(reverse("topology-new"), {"preset": "tape"}).status_code == 404


def test_a_topology_is_made_from_its_layers(web, team, user):
    answer = web.post(reverse("topology-new"), XFS)
    made = Topology.objects.get()
    assert answer["Location"] == reverse("topology-detail", args=[made.pk])
    assert made.created_by == user
    assert [entry["kind"] for entry in made.stack] == ["raw", "filesystem"]
    assert made.stack[0]["devices"] == [{"use": "data", "role": "ssd", "count": 1}]
    assert made.stack[1]["options"]["mount_options"] == ["noatime", "nodiratime"]


def test_adding_a_layer_without_javascript_keeps_what_was_typed(web):
    post = {**XFS, "kind": ["raw"], "layer0-data-count": "3", "do": "add 1 filesystem"}
    del post["save"]
    answer = web.post(reverse("topology-new"), post)
    layers = answer.context["draft"].layers
    assert [layer.kind for layer in layers] == ["raw", "filesystem"]
    assert layers[0].disks[0]["count"].value() == "3"
    assert answer.context["form"]["name"].value() == "xfs on SSD"
    assert "<html" in answer.text and 'class="errorlist"' not in answer.text
    assert not Topology.objects.exists()


def test_layers_are_removed_and_moved(web):
    post = {name: value for name, value in XFS.items() if name != "save"}
    removed = web.post(reverse("topology-new"), {**post, "do": "remove 0"}).context["draft"].layers
    assert [layer.kind for layer in removed] == ["filesystem"]
    assert removed[0].options["mount_options"].value() == "noatime\nnodiratime"
    moved = web.post(reverse("topology-new"), {**post, "do": "move 0 1"}).context["draft"].layers
    assert [layer.kind for layer in moved] == ["filesystem", "raw"]
    assert moved[1].disks[0]["role"].value() == "ssd"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": ["filesystem", "raw"]}, "Layer 1 (File system) needs a volume"),
        ({"kind": []}, "needs at least one layer"),
        ({"kind": ["tape"]}, "There is no layer named"),
        ({"name": ""}, "This field is required"),
        ({"layer0-data-count": "0"}, "takes data (the disk): 1 to 1 disks, not 0"),
        ({"layer0-data-count": "-1"}, "greater than or equal to 0"),
        ({"layer1-type": "fat"}, "fat is not one of the available choices"),
        ({"layer1-mount_options": "bind"}, "cannot be set by a layout"),
    ],
)
def test_what_cannot_stand_is_said_and_not_stored(web, change, says):
    moved = {
        "layer0-type": "xfs",
        "layer1-data-role": "ssd",
        "layer1-data-count": "1",
    }
    answer = web.post(reverse("topology-new"), {**XFS, **moved, **change})
    assert answer.status_code == 200 and says in answer.text
    assert not Topology.objects.exists()


def test_a_name_that_is_taken_is_refused(web, topology):
    answer = web.post(reverse("topology-new"), {**XFS, "name": "xfs"})
    assert "already exists" in answer.text and Topology.objects.count() == 1


def test_a_topology_is_changed(web, topology):
    url = reverse("topology-edit", args=[topology.pk])
    assert web.get(url).context["draft"].layers[1].options["type"].value() == "xfs"
    web.post(url, {**XFS, "layer1-type": "ext4"})
    topology.refresh_from_db()
    assert (topology.name, topology.stack[1]["options"]["type"]) == ("xfs on SSD", "ext4")


def test_a_copy_is_the_form_filled_in(web, other_web, topology):
    answer = web.get(reverse("topology-new"), {"copy": topology.pk})
    assert answer.context["form"]["name"].value() == "Copy of xfs"
    assert [layer.kind for layer in answer.context["draft"].layers] == ["raw", "filesystem"]
    assert Topology.objects.count() == 1
    assert f"?copy={topology.pk}" in web.get(reverse("topology-detail", args=[topology.pk])).text
    assert other_web.get(reverse("topology-new"), {"copy": topology.pk}).status_code == 404


@pytest.mark.parametrize("asked", ["x", "-1", "9" * 40, "\u0663"])
def test_a_copy_of_nothing_is_not_found(web, asked):
    assert web.get(reverse("topology-new"), {"copy": asked}).status_code == 404
