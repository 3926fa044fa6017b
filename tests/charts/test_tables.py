"""Tables beside charts: no cell becomes a spreadsheet's formula; knee and Little's law."""

from __future__ import annotations

import csv
import math

import pytest

from benchlab.charts.device_tables import device_rows
from benchlab.charts.sampled_tracks import Track
from benchlab.charts.tables import campaign_csv_lines, curve_points, series_csv_lines
from benchlab.web import texts
from tests.charts import made
from tests.charts.test_figures import group


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x"])
def test_no_text_becomes_a_formula(text):
    assert texts.csv_cell(text) == "'" + text


@pytest.mark.parametrize(("text", "plain"), [("\tx", "'\tx"), ("\rx", r"'\x0dx")])
def test_control_characters_neither_begin_a_formula_nor_move_a_cursor(text, plain):
    assert texts.csv_cell(text) == plain


@pytest.mark.parametrize("cell", [-1.5, "plain", None, 3])
def test_numbers_and_plain_text_stay(cell):
    assert texts.csv_cell(cell) == cell


def test_the_table_has_knee_and_littles_law():
    points = curve_points([group()])
    assert [(point.outstanding, point.knee) for point in points] == [
        (1, False),
        (2, False),
        (4, True),
        (8, False),
        (16, False),
    ]
    assert all(point.little and point.little.holds for point in points)
    assert points[0].iops and points[0].iops.n == 3


def test_campaign_csv_has_a_row_per_run_and_units_in_its_head():
    rows = list(csv.reader(campaign_csv_lines([group(repeats=2)])))
    assert "iops (op/s)" in rows[0]
    assert "clat.p99.9 (s)" in rows[0]
    assert len(rows) == 1 + 10


def test_series_csv_leaves_unknown_empty():
    text = "".join(series_csv_lines([Track("sdb", "await", "s", [1.0, 2.0], [math.nan, 0.5])]))
    assert text.splitlines()[1:] == ["sdb,await,s,1.0,", "sdb,await,s,2.0,0.5"]


def test_device_rows_put_volumes_first_and_shares_in_percent():
    rows = device_rows(
        [
            Track("sdb", "util", "1", [1.0], [0.5]),
            Track("dm-0", "util", "1", [1.0], [1.0]),
            Track("", "cpu.user", "1", [1.0], [0.25]),
        ],
        made.facts(1),
    )
    assert [row.device for row in rows] == ["bl1-data (dm-0, lvm)", "└ sdb (INTEL SSDSC2BB48)", ""]
    assert [row.summary.mean for row in rows] == [100.0, 50.0, 25.0]
