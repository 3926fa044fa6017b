"""Headings of iostat, by the manuals of sysstat and FreeBSD: which figure each is, and in which unit."""

from __future__ import annotations

import pytest

from agents.readers import _iostat as table

# Figure, what one of it is in base units, headings
HEADINGS = [
    ("iops", 1.0, "tps"),
    ("bandwidth", 1024.0, "kB/s"),
    ("bandwidth", 1048576.0, "MB/s"),
    ("bandwidth", 512.0, "sec/s"),
    ("merges", 1.0, "rqm/s"),
    ("await", 1e-3, "await svc_t ms/t"),
    ("service", 1e-3, "svctm"),
    ("queue", 1.0, "avgqu-sz aqu-sz qlen"),
    ("request.size", 512.0, "avgrq-sz"),
    ("request.size", 1024.0, "areq-sz"),
    ("util", 0.01, "%util %b"),
    ("other.await", 1e-3, "ms/o"),
    ("flush.iops", 1.0, "f/s"),
    ("flush.await", 1e-3, "f_await"),
    ("read.iops", 1.0, "r/s"),
    ("read.merges", 1.0, "rrqm/s"),
    ("read.await", 1e-3, "r_await ms/r"),
    ("read.request.size", 1024.0, "rareq-sz"),
    ("read.bandwidth", 512.0, "rsec/s Blk_read/s"),
    ("read.bandwidth", 1024.0, "rkB/s kB_read/s kr/s"),
    ("read.bandwidth", 1048576.0, "rMB/s MB_read/s"),
    ("write.iops", 1.0, "w/s"),
    ("write.merges", 1.0, "wrqm/s"),
    ("write.await", 1e-3, "w_await ms/w"),
    ("write.request.size", 1024.0, "wareq-sz"),
    ("write.bandwidth", 512.0, "wsec/s Blk_wrtn/s"),
    ("write.bandwidth", 1024.0, "wkB/s kB_wrtn/s kw/s"),
    ("write.bandwidth", 1048576.0, "wMB/s MB_wrtn/s"),
    ("discard.iops", 1.0, "d/s"),
    ("discard.merges", 1.0, "drqm/s"),
    ("discard.await", 1e-3, "d_await"),
    ("discard.request.size", 1024.0, "dareq-sz"),
    ("discard.bandwidth", 512.0, "dsec/s Blk_dscd/s"),
    ("discard.bandwidth", 1024.0, "dkB/s kB_dscd/s"),
    ("discard.bandwidth", 1048576.0, "dMB/s MB_dscd/s"),
]


def test_each_heading_is_a_figure_in_base_units():
    expected = {
        heading: (figure, scale)
        for figure, scale, headings in HEADINGS
        for heading in headings.split()
    }
    assert expected == table.COLUMNS


@pytest.mark.parametrize(
    "heading",
    ["%rrqm", "%wrqm", "%drqm", "Blk_read", "kB_wrtn", "MB_dscd"],
)
def test_totals_and_shares_are_known_and_left_out(heading):
    assert table.is_known_heading(heading) and heading not in table.COLUMNS
    assert not table.is_known_heading(f"{heading}x")


def test_means_of_requests_are_weighted_by_the_requests_they_are_of():
    every = ("read.iops", "write.iops", "discard.iops", "iops")
    assert {
        "await": every,
        "service": every,
        "request.size": every,
        "flush.await": ("flush.iops",),
        **{
            f"{way}.{figure}": (f"{way}.iops",)
            for way in ("read", "write", "discard")
            for figure in ("await", "request.size")
        },
    } == table.PER_REQUEST
