"""The rows of a curve's table: every number as a template would write it, and no name that is markup."""

from __future__ import annotations

from benchlab.analysis.curves import Little, Spread
from benchlab.charts.tables import CurvePoint
from benchlab.charts.templatetags.si import curve_rows

POINT = CurvePoint(
    label="<b>raw</b> & more", outstanding=8, repeats=3, iops=Spread(3, 12_300.0, 11_000.0, 13_000.0),
    bandwidth=Spread(1, 5.04e7, None, None), latencies=(None, Spread(1, 0.0012, None, None)),
    little=Little(16.04, 2.0), knee=True, unlike_conditions=True, repeat_ratio=1.5, runs=(4, 7),
)  # fmt: skip


def test_a_row_says_all_and_leads_to_its_runs():
    row = curve_rows([POINT], guest=False)
    assert row.startswith('<tr><th scope="row" class="line">&lt;b&gt;raw&lt;/b&gt; &amp; more</th>')
    cells = row.split("<td")[1:]
    assert len(cells) == 7
    assert ">8 <" in cells[0] and "Knee" in cells[0]
    assert "12.3 k" in cells[1] and "11 k" in cells[1] and "13 k" in cells[1]
    assert "Repeats differ 1.5" in cells[1] and "Unlike conditions" in cells[1]
    assert "50.4 MB/s" in cells[2] and "–" in cells[3] and "1.2 ms" in cells[4]
    assert "16.0 " in cells[5] and "Off" in cells[5]
    assert '<a href="/runs/4/">4</a> <a href="/runs/7/">7</a>' in cells[6]
    assert '<a href="/runs/4/history/">history</a>' in cells[6]


def test_a_guest_is_led_nowhere():
    row = curve_rows([POINT], guest=True)
    assert "<a" not in row and "<td>4 7</td>" in row
