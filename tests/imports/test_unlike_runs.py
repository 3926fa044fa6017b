"""Runs that differ in anything are no repeats: from the paste to the campaign's page and the API."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command

from benchlab.campaigns.models import Campaign, Workload
from benchlab.hosts.models import Host
from benchlab.imports.models import Draft
from benchlab.runs.models import Series
from tests.api.conftest import client_of

JSON = Path(__file__).parents[1] / "cases" / "tools" / "fio" / "3.33-randrw.json"
DD = """$ dd if=/dev/zero of=test bs=1M count=1024{more}
1024+0 records in
1024+0 records out
1073741824 bytes (1.1 GB, 1.0 GiB) copied, {seconds} s, {rate}
"""
FIO = """{above}{name}: (g=0): rw=randwrite, bs=4K-4K/4K-4K, ioengine=sync, iodepth=1
fio-2.2.10
Starting 1 process
{name}: (groupid=0, jobs=1): err= 0: pid={pid}: Thu Jan  1 00:00:00 2026
  write: io={kib}KB, bw={rate}KB/s, iops={iops}, runt=  {ms}msec
Run status group 0 (all jobs):

"""


def fio(name: str, iops: int, above: str = "") -> str:
    return FIO.format(
        above=above, name=name, pid=iops, kib=iops * 4 * 4, rate=iops * 4, iops=iops, ms=4000
    )


def sysbench(mode: str, words: str, rate: float) -> str:
    reads = mode.endswith("rd")
    read, written = (rate, 0.0) if reads else (0.0, rate)
    return f"""sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: 1
Initializing random number generator from current time


Extra file open flags: (none)
4 files, 2MiB each
8MiB total file size
Block size 16KiB
Periodic FSYNC enabled, calling fsync() each 100 requests.
Calling fsync() at the end of test, Enabled.
Using synchronous I/O mode
Doing {words} test
Initializing worker threads...

Threads started!


File operations:
    reads/s:                      {read * 64:.2f}
    writes/s:                     {written * 64:.2f}
    fsyncs/s:                     0.00

Throughput:
    read, MiB/s:                  {read:.2f}
    written, MiB/s:               {written:.2f}

General statistics:
    total time:                          1.0000s
    total number of events:              {rate * 64:.0f}

Latency (ms):
         min:                                    0.00
         avg:                                    {1000 / (rate * 64):.2f}
         max:                                   21.79
         95th percentile:                        0.00
         sum:                                 1000.00

Threads fairness:
    events (avg/stddev):           {rate * 64:.4f}/0.00
    execution time (avg/stddev):   1.0000/0.00

"""


def hand_in(web, text: str = "", files: dict[str, str] | None = None) -> Draft:
    sent = [SimpleUploadedFile(name, raw.encode()) for name, raw in (files or {}).items()]
    web.post("/import/", {"text": text, "files": sent})
    return Draft.objects.latest("pk")


def workload_names(campaign: Campaign) -> list[str]:
    return sorted(run.workload.name for run in campaign.runs.select_related("workload"))


def agree(web, draft: Draft, **more: str) -> Campaign:
    took = {
        f"r{file.pk}-{found['first']}-take": "on"
        for file in draft.files.all()
        for found in file.reading["found"]
    }
    told = {"campaign": "c", "new_host": "h", "new_topology": "t", **took, **more}
    answer = web.post(f"/import/{draft.pk}/", told)
    assert answer.status_code == 302, answer.content.decode()
    return Campaign.objects.latest("pk")


HEADLINES: list[tuple[str, dict[str, Any], list[str], list[str]]] = [
    (
        "sysbench",
        {"text": sysbench("rndrd", "random read", 649.5) + sysbench("rndwr", "random write", 72)
         + sysbench("seqwr", "sequential write (creation)", 199.25)},
        ["sysbench rndrd bs=16k", "sysbench rndwr bs=16k", "sysbench seqwr bs=16k"],
        ["681 MB/s", "75.5 MB/s", "209 MB/s"],
    ),
    (
        "dd",
        {"text": DD.format(more="", seconds=0.497434, rate="2.2 GB/s")
         + DD.format(more=" conv=fdatasync", seconds=7.86539, rate="137 MB/s")
         + DD.format(more=" oflag=direct", seconds=6.1, rate="176 MB/s")},
        ["dd write bs=1m", "dd write bs=1m conv=fdatasync", "dd write bs=1m oflag=direct"],
        ["2.16 GB/s", "137 MB/s", "176 MB/s"],
    ),
    (
        "job names",
        {"text": fio("slog-on", 172) + fio("slog-off", 13300)},
        ["fio randwrite bs=4k slog-off", "fio randwrite bs=4k slog-on"],
        ["172 IOPS", "13.3 k IOPS"],
    ),
    (
        "commands",
        {"text": fio("w", 265, "$ fio --name=w --rw=randwrite --fdatasync=1\n")
         + fio("w", 20500, "$ fio --name=w --rw=randwrite\n")
         + fio("w", 262, "$ fio --name=w --rw=randwrite --sync=1\n")},
        ["fio randwrite bs=4k", "fio randwrite bs=4k fdatasync=1", "fio randwrite bs=4k sync=1"],
        ["265 IOPS", "20.5 k IOPS", "262 IOPS"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("what", "sent", "names", "figures"), HEADLINES)
def test_no_headline_over_unlike_runs(web, user, what, sent, names, figures):
    campaign = agree(web, hand_in(web, **sent))
    assert workload_names(campaign) == names and campaign.repeats == 1, what
    page = web.get(f"/campaigns/{campaign.pk}/").content.decode()
    assert all(figure in page for figure in figures)
    answer = client_of(user).get(f"/api/results/?campaign={campaign.pk}&metric=bandwidth")
    table = answer.content.decode()
    rows = [row for row in csv.DictReader(table.splitlines()) if row["metric"] == "bandwidth"]
    assert sorted((row["workload"], row["repeat"]) for row in rows) == [(n, "1") for n in names]


def test_documents_that_differ_in_an_option_that_we_do_not_have(web):
    """Four JSON files with none, sync, fdatasync and a rate limit."""
    given = [{}, {"sync": "1"}, {"fdatasync": "1"}, {"rate": "10m", "zonemode": "strided"}]
    document = json.loads(JSON.read_text())
    files = {}
    for number, options in enumerate(given):
        for job in document["jobs"]:
            job["job options"] = {"rw": "randrw", "bs": "4k", "numjobs": "2", **options}
        files[f"{number}.json"] = json.dumps(document)
    draft = hand_in(web, files=files)
    page = web.get(f"/import/{draft.pk}/").content.decode()
    assert "These 4 results of fio differ in: sync, fdatasync, rate, zonemode." in page
    campaign = agree(web, draft)
    assert workload_names(campaign) == [
        "fio randrw bs=4k",
        "fio randrw bs=4k fdatasync=1",
        "fio randrw bs=4k rate=10m",
        "fio randrw bs=4k sync=1",
    ]
    # the same options again are the same workload, others of the same name are not
    del files["0.json"]
    again = agree(
        web,
        hand_in(web, files=files),
        new_host="",
        host=str(Host.objects.get().pk),
        workload="mine",
    )
    assert workload_names(again) == ["mine fdatasync=1", "mine rate=10m", "mine sync=1"]
    other = agree(web, hand_in(web, files={"1.json": files["1.json"]}))
    assert workload_names(other) == ["fio randrw bs=4k (2)"]
    assert (
        Workload.objects.get(name="fio randrw bs=4k").options != other.runs.get().workload.options
    )


def test_depths_are_points_of_one_curve(web):
    depths = (1, 4, 16)
    text = "".join(
        fio("w", 1000 * depth).replace(
            "ioengine=sync, iodepth=1", f"ioengine=libaio, iodepth={depth}"
        )
        for depth in depths
    )
    campaign = agree(web, hand_in(web, text))
    assert workload_names(campaign) == ["fio randwrite bs=4k"] * 3
    points = campaign.runs.order_by("pk").values_list("point", "outstanding", "repeat")
    assert list(points) == [({"iodepth": depth}, depth, 1) for depth in depths]


@pytest.mark.parametrize("repeats", [False, True])
def test_equal_options_and_figures_far_apart_are_asked_about(web, repeats):
    draft = hand_in(web, fio("w", 172) + fio("w", 13300) + fio("w", 180))
    page = web.get(f"/import/{draft.pk}/").content.decode()
    assert "Results 1, 2, 3 have the same options but differ 77.3 times: are they repeats?" in page
    campaign = agree(web, draft, **({"are_repeats": "on"} if repeats else {}))
    name = "fio randwrite bs=4k"
    parts = [name] * 3 if repeats else [f"{name}, part 1", f"{name}, part 1", f"{name}, part 2"]
    assert workload_names(campaign) == parts
    assert campaign.repeats == (3 if repeats else 2)


def test_near_repeats_are_one_workload(web):
    draft = hand_in(web, fio("w", 172) + fio("w", 400))
    page = web.get(f"/import/{draft.pk}/").content.decode()
    assert "are they repeats?" not in page and "What differs" not in page
    campaign = agree(web, draft)
    assert workload_names(campaign) == ["fio randwrite bs=4k"] * 2 and campaign.repeats == 2


def test_groups_of_one_run_are_workloads_of_their_own(web):
    """fio ran them one after another (stonewall): their figures are labelled and were shown nowhere."""
    first, second = (
        fio("a", 172),
        fio("b", 13300).replace("=0)", "=1)").replace("groupid=0", "groupid=1"),
    )
    heads = "".join(
        text[text.index("Starting 1 process") + 19 : text.index("Run status")]
        for text in (first, second)
    )
    starts = "".join(text.partition("\n")[0] + "\n" for text in (first, second))
    draft = hand_in(
        web, f"{starts}fio-2.2.10\nStarting 2 processes\n{heads}Run status group 0 (all jobs):\n\n"
    )
    campaign = agree(web, draft)
    assert workload_names(campaign) == ["fio randwrite bs=4k a", "fio randwrite bs=4k b"]
    page = web.get(f"/campaigns/{campaign.pk}/").content.decode()
    assert "172 IOPS" in page and "13.3 k IOPS" in page
    assert list(
        campaign.runs.order_by("pk").values_list("options__name", "outstanding", "point")
    ) == [("a", 1, {}), ("b", 1, {})]


HEADINGS = (
    "Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz"
    " d/s dkB/s drqm/s %drqm d_await dareq-sz aqu-sz %util"
)
REPORT = "\n{}\nsda {:.2f} {:.2f} 0.00 0.00 1.00 4.00" + 12 * " 0.00" + " {:.2f} {:.2f}\n"
IOSTAT = "Linux 5.10.0 (h)  01/01/24  _x86_64_  (4 CPU)\n" + "".join(
    REPORT.format(HEADINGS, rate, 4 * rate, rate / 1000, rate / 10) for rate in (100, 300, 200)
)


def test_a_watcher_alone_shows_what_the_devices_did(web):
    campaign = agree(web, hand_in(web, IOSTAT))
    page = web.get(f"/campaigns/{campaign.pk}/").content.decode()
    assert "What the devices did" in page and "250 IOPS" in page and "1.02 MB/s" in page
    assert f'href="/runs/{campaign.runs.get().pk}/"' in page
    assert "Not compared" not in page


@pytest.mark.parametrize(
    ("told", "times"),
    [
        ({}, [1, 2]),
        ({"interval": "5"}, [5, 10]),
        ({"interval": "5", "first_counts": "on"}, [5, 10, 15]),
    ],
)
def test_a_watcher_without_a_command_is_asked_about(web, told, times):
    draft = hand_in(web, IOSTAT)
    key = f"r{draft.files.get().pk}-{draft.files.get().reading['found'][0]['first']}"
    page = web.get(f"/import/{draft.pk}/").content.decode()
    assert f'name="{key}-interval"' in page and f'name="{key}-first_counts"' in page
    campaign = agree(web, draft, **{f"{key}-{name}": value for name, value in told.items()})
    for again in (False, True):
        if again:
            call_command("reparse")
        series = Series.objects.get(attempt__run__campaign=campaign, metric="read.iops")
        assert list(series.times) == times
        assert list(series.values) == ([100, 300, 200] if "first_counts" in told else [300, 200])


def test_a_watcher_with_a_command_is_not_asked_about(web):
    draft = hand_in(web, f"$ iostat -dxy 5 3\n{IOSTAT}")
    assert "Seconds between reports" not in web.get(f"/import/{draft.pk}/").content.decode()
    agree(web, draft)
    assert list(Series.objects.get(metric="read.iops").values) == [100, 300, 200]
