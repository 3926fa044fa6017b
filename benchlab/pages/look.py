# SPDX-License-Identifier: Apache-2.0
"""Every component of static/benchlab.css on one page, from the templates that real pages include."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_GET

from benchlab.charts import figure, sparkline
from benchlab.charts.palette import COLOURS, LINE_DASHES, MARKERS, Place, assign_styles
from benchlab.pages.topologies import builder
from benchlab.pages.topologies.host_fit import HostCapacity
from benchlab.runs.progress import State
from benchlab.topologies import forms as forms_of_topologies
from benchlab.topologies.plan_view import Command
from benchlab.topologies.stack_edits import DiskSupply

TOKENS = (
    "bg",
    "surface",
    "surface-2",
    "surface-3",
    "line",
    "line-2",
    "ink",
    "ink-2",
    "ink-3",
    "accent",
    "accent-bg",
    "good",
    "warn",
    "bad",
    "odd",
)
HUES = ("blue", "vermilion", "green", "purple", "amber", "sky", "grey")
DEPTHS = (1, 2, 4, 8, 16)
# op/s at those depths: SSD and HDD of article 002, 8 KiB, half of it reads.
LINES = {"SSD, no cache": (1683, 3327, 5095, 5101, 5099), "HDD, cached": (463, 633, 749, 789, 833)}
STEPS = 9
# no host
EMPTY = HostCapacity({}, frozenset(), None, None, DiskSupply())


class Example(forms.Form):
    """Fields as every form of ours shows them, one of them filled in wrongly."""

    name = forms.CharField(initial="Stripe of 4", help_text="As campaigns will show it.")
    size = forms.ChoiceField(label="Stripe size", choices=[("64", "64 KiB")])
    disks = forms.IntegerField(max_value=11)
    spare = forms.BooleanField(label="Only spare disks", required=False, initial=True)


def example_form() -> Example:
    """Bound, so that its error stands at its field."""
    return Example({"name": "Stripe of 4", "size": "64", "disks": 13, "spare": True})


@require_GET
def look_page(request: HttpRequest) -> HttpResponse:
    series = [
        {"name": f"s{at + 1}", "hue": HUES[at], "key": sparkline.legend_key(style)}
        for at, style in enumerate(assign_styles([Place(at) for at in range(len(COLOURS))]))
    ]
    hosts = [
        sparkline.legend_key(style)
        for style in assign_styles([Place(0, at, 0) for at in range(len(LINE_DASHES))])
    ]
    others = [
        sparkline.legend_key(style)
        for style in assign_styles([Place(0, 0, at) for at in range(len(MARKERS))])
    ]
    context = {
        "tokens": TOKENS,
        "heats": range(STEPS),
        "series": series,
        "hosts": hosts,
        "others": others,
        "form": example_form(),
        "progress": SimpleNamespace(
            runs=20, ended=7, not_succeeded=0, trouble="", eta_s=1560, state=State.RUNNING
        ),
        "boxes": BOXES,
        **builder.builder_context(example_draft(), EMPTY),
        "disks": DISKS,
        "cells": CELLS,
        "steps": STEPS_OF_A_PLAN,
    }
    return render(request, "look/look.html", context)


def example_draft() -> builder.Draft:
    """A stripe with a file system, as the builder draws it on example disks."""
    devices = [{"use": "data", "role": "hdd", "count": 4}]
    stack: list[dict[str, Any]] = [
        {"kind": "lvm", "devices": devices},
        {"kind": "filesystem", "devices": []},
    ]
    return builder.Draft(forms_of_topologies.from_stack(stack), at=1)


BOXES = (
    {"label": "XFS", "gives": "a file system", "options": (("su", "64k"), ("sw", "4"))},
    {
        "label": "LVM",
        "gives": "a volume",
        "options": (("type", "striped"),),
        "disks": ({"use": "data", "count": 4, "role": "hdd", "each": range(4)},),
    },
)
STEPS_OF_A_PLAN = (
    Command("-", "wipefs --all /dev/sdb", "Erase the signatures of /dev/sdb", ("wipefs",)),
    Command("+", "mkfs.xfs -L bl7 /dev/vg/v", "Make a xfs file system on /dev/vg/v", ("mkfs.xfs",)),
    Command("~", "udevadm settle --timeout=30", "Wait for udev", ("udevadm",)),
    Command("-", "/mnt/benchlab/bl7", "Take down: File system"),
)
DISKS = (
    ("spare", "sdb, 4 TB, spare"),
    ("use", "sdc, 4 TB, in use"),
    ("fail", "sdd, 4 TB, failed"),
    ("sys", "sda, 300 GB, system"),
    ("spare ssd", "dfa, 1.2 TB, spare"),
    ("use ssd", "dfb, 1.2 TB, in use"),
)
CELLS = (
    ("LVM stripe of 2 SSD", (("c3", "1,690"), ("c5", "3,352"), ("c7", "6,660"), ("c8", "10,190"))),
    (
        "md RAID 5 of 3 SSD",
        (("c2", "1,120"), ("c4", "2,190"), ("c6", "4,316"), ("c7 shaky", "6,943")),
    ),
    ("HDD, no cache", (("c0", "493"), ("none", "–"), ("fail", "failed"), ("wait", "queued"))),
)


@require_GET
def look_figure(request: HttpRequest) -> HttpResponse:
    """A chart of two lines, as real ones are laid out."""
    styles = assign_styles([Place(at) for at in range(len(LINES))])
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": name,
            "x": list(DEPTHS),
            "y": list(values),
            "line": {"color": style.colour, "dash": style.dash, "width": 2},
            "marker": {"symbol": style.marker, "size": 8, "color": style.colour},
            "hovertemplate": "%{y:,} IOPS<extra></extra>",
        }
        for style, (name, values) in zip(styles, LINES.items(), strict=True)
    ]
    layout = figure.base_layout(
        "IOPS over outstanding I/Os",
        "Line: median of 3 repeats.",
        height=420,
        xaxis=figure.depth_axis(DEPTHS),
        yaxis=figure.value_axis("IOPS", "op/s"),
    )
    layout["legend"]["y"] = -0.2
    answer = figure.figure_json({"data": data, "layout": layout})
    return HttpResponse(answer, content_type="application/json")


urlpatterns = [
    path("", look_page, name="look"),
    path("figure.json", look_figure, name="look-figure"),
]
