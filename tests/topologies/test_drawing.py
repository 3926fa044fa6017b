"""A plan as a picture: every disk is in it, nothing overlaps, and it says the same in words."""

from __future__ import annotations

import itertools

import pytest
from django.template.loader import render_to_string

from agents.contracts import Claim
from agents.facts.model import HostFacts
from agents.plans import stack
from agents.plans.chain import specs
from agents.safety.guard import Spare
from benchlab.topologies import plan_drawing
from tests.hosts.conftest import disk, facts
from tests.topologies.plans import cached, layer, made, many_disks

HOST = many_disks()
PARTED = [
    layer("partition", {"size": 64 << 20, "count": 2}, data=("hdd", 2)),
    layer("md", {"level": 5}),
    layer("filesystem", {"type": "ext4"}),
]
GROWING = [layer("lvm", data=("hdd", 2)), layer("filesystem", {"type": "xfs"})]
GROWTH = [{"layer": 1, "options": {}, "devices": [{"use": "data", "role": "hdd", "count": 2}]}]
STACKS = {
    "cached": (cached(), ()),
    "parted": (PARTED, ()),
    "growing": (GROWING, GROWTH),
    "directory": ([layer("directory", {"path": "/srv/scratch"})], ()),
    "raw": ([layer("raw", data=("ssd", 1))], ()),
}


def drawn(name: str, found: HostFacts | None = HOST) -> plan_drawing.Drawing:
    return plan_drawing.draw_plan(made(*_args(name)), found)


def _args(name):
    layers, stages = STACKS[name]
    return layers, HOST, stages


def boxes(picture: plan_drawing.Drawing, css: str) -> list[plan_drawing.Box]:
    return [box for box in picture.boxes if css in box.css.split()]


@pytest.mark.parametrize("name", STACKS)
def test_nothing_overlaps_and_all_is_inside(name):
    picture = drawn(name)
    for box in picture.boxes:
        assert box.x >= 0 and box.x + box.width <= picture.width
        assert box.y >= 0 and box.y + box.height <= picture.height
        for text in box.texts:
            assert box.x <= text.x and box.y <= text.y <= box.y + box.height
    solid = [box for box in picture.boxes if "group" not in box.css]
    for one, other in itertools.combinations(solid, 2):
        apart = (
            one.x + one.width <= other.x or other.x + other.width <= one.x
            or one.y + one.height <= other.y or other.y + other.height <= one.y
        )  # fmt: skip
        assert apart, (one, other)


@pytest.mark.parametrize("name", STACKS)
def test_no_arrow_crosses_a_layer(name):
    picture = drawn(name)
    for edge in picture.edges:
        assert edge.y1 > edge.y2
        for box in boxes(picture, "layer"):
            inside = box.x < edge.x < box.x + box.width
            assert not (inside and edge.y2 < box.y + box.height and edge.y1 > box.y), (edge, box)


def test_every_disk_says_node_model_serial_size_and_role():
    texts = [[t.words for t in box.texts] for box in boxes(drawn("cached"), "disk")]
    assert len(texts) == 13
    assert ["/dev/sdb", "WDC WD40", "WD-01", "1 GiB, hdd"] in texts
    assert ["/dev/nvme0n1", "SSD", "NV-0", "1 GiB, ssd"] in texts


def test_layers_lie_bottom_up_and_say_what_they_make():
    picture = drawn("cached")
    heads = [(box.texts[0].words, box.y) for box in boxes(picture, "layer")]
    upwards = [head for head, _ in sorted(heads, key=lambda one: -one[1])]
    assert upwards == ["LVM", "LVM cache", "File system"]
    words = [text.words for box in picture.boxes for text in box.texts]
    assert any("makes /dev/blabc7/data" in text for text in words)
    assert "mounted at /mnt/benchlab/blabc7" in words
    assert boxes(picture, "piece") == []  # LVM hands on its disks: they are drawn already


def test_the_cache_stands_beside_what_it_caches():
    picture = drawn("cached")
    lvm, cache = sorted(boxes(picture, "layer"), key=lambda box: -box.y)[:2]
    ssd = next(box for box in boxes(picture, "disk") if "nvme0n1" in box.title)
    assert lvm.x + lvm.width < ssd.x < cache.x + cache.width


def test_partitions_are_drawn():
    names = [box.texts[0].words for box in boxes(drawn("parted"), "piece")]
    assert len(names) == 4 and all(name.startswith("blabc7-data") for name in names)


def test_what_a_stage_adds_is_marked():
    picture = drawn("growing")
    assert picture.grows and not drawn("cached").grows
    assert len([box for box in boxes(picture, "added") if "disk" in box.css.split()]) == 2
    assert "added by stage 1: /dev/sdd /dev/sde." in picture.says


def test_the_words_name_every_disk():
    picture = drawn("cached")
    for box in boxes(picture, "disk"):
        assert box.texts[0].words in picture.says
    assert picture.says.startswith("From the bottom up: 1. LVM on data: 12 × hdd (/dev/sdb ")


def test_without_facts_the_identity_stands_for_the_serial():
    words = [text.words for box in drawn("raw", None).boxes for text in box.texts]
    assert "serial:NV-0" in words


def test_more_disks_than_fit_are_counted():
    names = [f"nvme{n}n1" for n in range(40)]
    host = facts(*(disk(name, majmin=f"259:{n}", serial=name) for n, name in enumerate(names)))
    spares = [Claim(d.identity, d.path, d.size, d.model) for d in host.devices[2:]]
    group = plan_drawing.DiskGroup(1, "data", "nvme", tuple(spares))
    assert group.height < plan_drawing.DiskGroup(1, "data", "nvme", tuple(spares[:31])).height + 1
    canvas = plan_drawing._Canvas()
    plan_drawing._draw_disks(canvas, group, 0, 0, {claim.node: "S" for claim in spares})
    assert len([box for box in canvas.boxes if "disk" in box.css.split()]) == plan_drawing.MAX_DISKS
    assert canvas.boxes[0].texts[1].words == "and 16 more, in the table below"


def test_what_a_host_says_cannot_break_the_page():
    evil = "<script>\"&'</script>"
    host = facts(disk("sdb", majmin="8:16", model=evil, serial=evil))

    spare = Spare(f"serial:{evil}", 2**30, evil, "ssd")
    plan = stack.plan_stack(specs([layer("raw", data=("ssd", 1))]), "blabc7", host, [spare])
    text = render_to_string(
        "topologies/_drawing.html", {"drawing": plan_drawing.draw_plan(plan, host), "key": 1}
    )
    assert "<script" not in text and "&lt;script&gt;" in text
    assert "style=" not in text
