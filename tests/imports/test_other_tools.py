"""Outputs of tools that BenchLab does not run, in one paste: each becomes runs, with lines that lead back to it."""

from __future__ import annotations

from pathlib import Path

from agents.drivers import text_reading
from benchlab.imports import texts
from benchlab.runs import conclusion
from benchlab.runs.models import Attempt
from tests.imports.test_articles_pasted import pasted

CASES = Path(__file__).parents[1] / "cases" / "readers"
# one of each shape: lines, blocks, rows below a heading, columns as points, tests as points
TEXTS = (
    "hdparm/terminal.txt",
    "crystaldiskmark/8.txt",
    "rados_bench/write-and-read.txt",
    "yabs/two-servers.txt",
    "kbench/comparison.txt",
)


def test_one_paste_of_several_tools(web) -> None:
    """Each test is a run of its own: reads and writes that ran one after the other are never added up."""
    text = "\n\nand then\n\n".join((CASES / name).read_text() for name in TEXTS)
    _, campaign = pasted(web, text)
    attempts = Attempt.objects.filter(run__campaign=campaign)
    tools = [attempt.run.tool for attempt in attempts.order_by("run__position")]
    counted = {tool: tools.count(tool) for tool in tools}
    assert counted == {"hdparm": 5, "crystaldiskmark": 5, "rados_bench": 2, "yabs": 6, "kbench": 12}
    for attempt in attempts:
        assert not conclusion.reparse_attempt(attempt)
        assert attempt.measurements.exists(), attempt.run
    asked = {"volume": "Longhorn", "rw": "randwrite", "iodepth": 1}
    longhorn = attempts.get(run__options__contains=asked)
    (latency,) = longhorn.measurements.all()
    assert (latency.name, latency.value) == ("write.lat.mean", 412877e-9)


def test_a_page_of_bon_csv2html() -> None:
    """As bon_csv2html 2.00a wrote it: 412,004 K/sec are 402 M/sec there, and 812 K/sec remain 812."""
    page = Path(__file__).with_name("bon_csv2html.html").read_bytes()
    text = texts.decode_upload("results.html", page).text
    assert text == (CASES / "bonnie" / "page-2.00.txt").read_text()
    first, second = text_reading.read_text(text).results
    figures = {metric.name: metric.value for metric in first.metrics}
    assert figures["write.block.bandwidth"] == 402 * 2**20
    assert figures["write.char.bandwidth"] == 812 * 2**10
    assert not second.trouble
