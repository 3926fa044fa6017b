"""The disks' work: which are held against each other, in which window, and in which words. Figures by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.urls import reverse

from agents.contracts import Claim, Frame, Target, Window
from agents.plans import applied_part
from agents.plans.chain import DiskRequest, LayerSpec
from agents.plans.stack import Placed, StackPlan
from agents.samplers import diskstats
from benchlab.analysis.devices import Spread
from benchlab.charts import device_stacks, device_work
from benchlab.charts.sampled_tracks import Track, measured_parts
from benchlab.runs.models import Measurement
from tests.charts import made

KB = 1024.0  # of iostat
MEASURED = [Window("file layout", 0.0, 4.0, False), Window("measured", 4.0, 14.0)]


def layer(kind: str, **given: tuple[str, ...]) -> Placed:
    devices = {
        use: tuple(Claim(f"serial:{n}", f"/dev/{n}", 1, "") for n in names)
        for use, names in given.items()
    }
    target = Target("bl1", devices=devices)
    return Placed(LayerSpec(kind), target, target, ())


def lvm(*names: str, **more: tuple[str, ...]) -> Placed:
    return layer("lvm", data=names, **more)


def wrote(times: tuple[float, ...], **rates: float) -> list[Track]:
    """4 KiB a write."""
    return [
        Track(name, metric, unit, times, tuple(rate * size for _ in times))
        for name, rate in rates.items()
        for metric, unit, size in (("write.iops", "op/s", 1), ("write.bandwidth", "B/s", 4096))
    ]


SECONDS = tuple(float(second) for second in range(1, 15))


def worked(layers, tracks, windows=(), only="", **figures):
    return device_work.disk_work(
        device_stacks.plan_layers(layers), measured_parts(tracks, list(windows)), figures, only
    )


def test_two_of_four_disks_do_it_all():
    [row] = worked(
        [lvm("sdb", "sdc", "sdd", "sde")], wrote(SECONDS, sdb=100, sdc=100, sdd=0, sde=0)
    )
    assert row.written_text == "2 of 4 do 100 %: sdb, sdc" and row.read_text == ""
    assert row.window == "the whole run" and row.writes is None


def test_even_and_uneven_and_the_cache_disk_is_no_member():
    tracks = wrote(SECONDS, sdb=50, sdc=50, sdd=900)
    even, alone = worked(
        [lvm("sdb", "sdc", cache=("sdd",))], tracks, MEASURED, **{"write.bandwidth": 1e5}
    )
    assert even.written_text == "even" and alone.use.use == "cache" and alone.written is None
    [row] = worked([lvm("sdb", "sdc")], wrote(SECONDS, sdb=70, sdc=30))
    assert row.written_text == "uneven: sdb 70 % to sdc 30 %"


def test_few_samples_tell_no_balance():
    """Nine seconds: an uneven share may be the run's own swing; that two of four do it all is seen all the same."""
    [row] = worked([lvm("sdb", "sdc")], wrote(SECONDS[:9], sdb=70, sdc=30))
    assert row.written_text == "not told by 9 samples: 10 are needed"
    [row] = worked([lvm("sdb", "sdc")], wrote(SECONDS[:10], sdb=70, sdc=30))
    assert row.written_text == "uneven: sdb 70 % to sdc 30 %"
    four = lvm("sdb", "sdc", "sdd", "sde")
    [row] = worked([four], wrote(SECONDS[:9], sdb=100, sdc=100, sdd=0, sde=0))
    assert row.written_text == "2 of 4 do 100 %: sdb, sdc"


def test_without_activity_or_with_a_member_unseen_nothing_is_said():
    assert worked([lvm("sdb", "sdc")], wrote(SECONDS, sdb=0, sdc=0)) == []
    assert worked([lvm("sdb", "sdc")], wrote(SECONDS, sdb=100)) == []
    assert worked([lvm("sdb", "sdc")], []) == []


def test_the_disks_below_are_counted_where_they_are_used():
    tracks = wrote(SECONDS, sdb=9, sdc=9, sdd=0)
    assert worked([lvm("sdb", below=("sdc", "sdd"))], tracks) == []


def test_a_few_bytes_the_other_way_are_strays():
    """A file system reads its metadata from one disk while all four are written."""
    tracks = wrote(SECONDS, sdb=100, sdc=100, sdd=100, sde=100)
    reads = {"sdb": 81920.0, "sdc": 0.0, "sdd": 0.0, "sde": 0.0}
    for name, moved in reads.items():
        named = (("read.bandwidth", moved), ("read.iops", moved / 4096))
        tracks += [Track(name, metric, "", SECONDS, (value,) * 14) for metric, value in named]
    [row] = worked([lvm("sdb", "sdc", "sdd", "sde")], tracks)
    assert (row.written_text, row.read_text) == ("even", "")


def test_one_sample_is_one_report():
    """Article 000, iostat of a stripe of twelve: 2 x 28,988 kB/s of 61,256 in all are 94.6 %."""
    tracks = []
    for name in (f"sd{letter}" for letter in "bcdefghijklm"):
        told = (14413.0, 28988 * KB) if name in ("sdb", "sdc") else (7248.0, 328 * KB)
        named = zip(("write.iops", "write.bandwidth"), told, strict=True)
        tracks += [Track(name, metric, "", (1.0,), (value,)) for metric, value in named]
    [row] = worked([lvm(*dict.fromkeys(track.device for track in tracks))], tracks)
    assert row.written_text == "2 of 12 do 95 %: sdb, sdc"
    assert row.flush_text == "0 % to 91 % of each disk's writes, or more"


@pytest.mark.parametrize(
    ("other", "says"),
    [(100.0, "even, by one report"), (50.0, "not told by 1 sample: 10 are needed")],
)
def test_one_report_tells_that_disks_are_even_and_not_that_they_are_not(other, says):
    """A printed average: that both did the same is what it says; what is uneven in it may be chance."""
    [row] = worked([lvm("sdb", "sdc")], wrote((1.0,), sdb=100.0, sdc=other))
    assert row.written_text == says


def test_amplification_is_over_what_was_measured():
    """A mirror: each disk 100 writes of 4 KiB a second, the tool 100; and 10 times that while it lays its file out."""
    laid = [
        replace(
            t,
            values=tuple(
                v * (10 if at <= 4 else 1) for at, v in zip(t.times, t.values, strict=True)
            ),
        )
        for t in wrote(SECONDS, sdb=100, sdc=100)
    ]
    [row] = worked([lvm("sdb", "sdc")], laid, MEASURED, **{"write.bandwidth": 409600.0})
    assert row.writes == 2 and row.reads is None and row.window == "measured"


def test_of_several_windows_the_tools_figures_are_of_none():
    windows = [Window("a", 0.0, 6.0), Window("b", 6.0, 14.0)]
    rows = worked(
        [lvm("sdb", "sdc")], wrote(SECONDS, sdb=9, sdc=9), windows, **{"write.bandwidth": 1e5}
    )
    assert [row.writes for row in rows] == [None, None]


def test_each_test_of_pg_test_fsync_has_its_own():
    """100 fdatasyncs of 8 KiB a second; two disks with 300 writes of 4 KiB together: 1.5."""
    windows = [Window("one.fdatasync", 0.0, 7.0), Window("two.fsync", 7.0, 14.0)]
    rows = worked([lvm("sdb", "sdc")], wrote(SECONDS, sdb=150, sdc=150), windows,
                  **{"one.fdatasync.ops": 100.0, "two.fsync.ops": 100.0})  # fmt: skip
    assert [(row.window, row.writes) for row in rows] == [
        ("one.fdatasync", 1.5),
        ("two.fsync", 0.75),
    ]


# Article 000: a stripe of 4, 4 KiB each, and pg_test_fsync. A write of 8 kB meets two disks; its last tests, with their
# 16 kB, and the 16 MiB that it lays out first, meet all four.

LINE = "   8 {} {} 0 0 0 0 {} 0 {} 0 0 0 0\n"  # of /proc/diskstats: writes, sectors written
NAMES = ("sdb", "sdc", "sdd", "sde")
LAYS_OUT, SYNCS, ALL_FOUR = (100, 100, 100, 100), (60, 60, 0, 0), (80, 80, 80, 80)  # per second
RATES = (*[LAYS_OUT] * 4, *[SYNCS] * 5, *[ALL_FOUR] * 5)
TESTS = [Window("file", 0.0, 4.0, False), Window("one", 4.0, 9.0), Window("open_sync", 9.0, 14.0)]


def frames() -> list[Frame]:
    done = [0, 0, 0, 0]
    found = []
    for second, rates in enumerate([(0, 0, 0, 0), *RATES]):
        done = [before + rate for before, rate in zip(done, rates, strict=True)]
        text = "".join(
            LINE.format(16 * number, name, count, 8 * count)
            for number, (name, count) in enumerate(zip(NAMES, done, strict=True))
        )
        found.append(Frame(100.0 + second, {"/proc/diskstats": text}))
    return found


def test_of_article_000_each_test_has_a_balance_of_its_own():
    tracks = [
        Track(s.device, s.metric, s.unit, s.times, s.values)
        for s in diskstats.frames_to_series(frames())
    ]
    told = {row.window: row.written for row in worked([lvm(*NAMES)], tracks, TESTS)}
    assert told["one"].spread == Spread.FEW and told["one"].doers == (0, 1)
    assert told["open_sync"].spread == Spread.EVEN


# --- hits


def rates(device: str, **values: tuple[float, ...]) -> list[Track]:
    return [
        Track(device, name.replace("_", "."), "op/s", SECONDS[: len(v)], v)
        for name, v in values.items()
    ]


def test_what_a_cache_counts():
    """By hand: 90 + 30 hits of 100 + 100 reads."""
    reads = rates("dm-3", read_hits=(90.0, 30.0), read_misses=(10.0, 70.0))
    tracks = [*reads, *rates("dm-3", write_hits=(0.0, 0.0), write_misses=(0.0, 0.0))]
    [hit] = device_work.cache_hits([], measured_parts(tracks, []), {})
    assert (hit.device, hit.requests, hit.ratio, hit.counted) == ("dm-3", "reads", 0.6, True)


def hits(layers, parts, figures, only=""):
    return device_work.cache_hits(device_stacks.plan_layers(layers), parts, figures, only)


READS = {"read.bandwidth": 4e7}


def test_by_the_bytes_of_its_disks_too():
    """30 MB/s from the SSD, 10 from the disks behind it."""
    reads = {"nvme0n1": 3e7, "sdb": 6e6, "sdc": 4e6}
    tracks = [Track(n, "read.bandwidth", "B/s", (1.0, 2.0), (v, v)) for n, v in reads.items()]
    cached = layer("lvm_cache", cache=("nvme0n1",), below=("sdb", "sdc"))
    [hit] = hits([lvm("sdb", "sdc"), cached], measured_parts(tracks, []), READS)
    assert hit.ratio == pytest.approx(0.75)
    assert (hit.device, hit.counted) == ("lvm_cache", False)
    assert hits([cached], measured_parts(tracks[:2], []), READS) == [], "sdc was not seen"
    assert hits([cached], measured_parts([], []), READS) == []
    assert hits([cached], measured_parts(tracks, []), {"write.bandwidth": 4e7}) == [], "its own"


def test_a_tool_that_only_reads_or_only_writes_tells_it_by_its_whole_rate():
    """dd prints one rate; 4 KiB twice a write, and no hit of a cache that only writes were held against."""
    tracks = wrote(SECONDS, sdb=100, sdc=100)
    [row] = worked([lvm("sdb", "sdc")], tracks, MEASURED, "write", bandwidth=409600.0)
    assert (row.writes, row.reads) == (2, None)
    [row] = worked([lvm("sdb", "sdc")], tracks, MEASURED, bandwidth=409600.0)
    assert (row.writes, row.reads) == (None, None)
    reads = {"nvme0n1": 3e7, "sdb": 1e7}
    tracks = [Track(n, "read.bandwidth", "B/s", (1.0, 2.0), (v, v)) for n, v in reads.items()]
    cached = layer("lvm_cache", cache=("nvme0n1",), below=("sdb",))
    [hit] = hits([cached], measured_parts(tracks, []), {"bandwidth": 4e7}, "read")
    assert hit.ratio == pytest.approx(0.75)
    assert hits([cached], measured_parts(tracks, []), {"bandwidth": 4e7}, "write") == []


def test_of_a_result_from_elsewhere_layers_stand_on_the_disks_that_its_source_tells():
    specs = [
        LayerSpec("lvm", devices=(DiskRequest("data", "hdd", 2),)),
        LayerSpec("lvm_cache", devices=(DiskRequest("cache", "ssd", 1),)),
    ]
    found = device_stacks.imported_layers(specs, {"hdd": ["sdb", "sdc"], "ssd": ["dfa"]})
    assert [(one.layer, one.use, one.members) for one in device_stacks.disk_uses(found)] == [
        ("lvm", "data", ("sdb", "sdc")),
        ("lvm_cache", "cache", ("dfa",)),
    ]
    reads = {"dfa": 3e7, "sdb": 1e7, "sdc": 0.0}
    tracks = [Track(n, "read.bandwidth", "B/s", (1.0, 2.0), (v, v)) for n, v in reads.items()]
    [hit] = device_work.cache_hits(found, measured_parts(tracks, []), READS)
    assert hit.device == "lvm_cache" and hit.ratio == pytest.approx(0.75)
    [alone] = device_stacks.disk_uses(device_stacks.imported_layers([], {"hdd": ["sdb"]}))
    assert (alone.layer, alone.use) == ("imported", "hdd")


# --- on pages


@pytest.fixture
def mirrored(lab):
    """A run whose plan has two disks, and whose tool told what it read."""
    attempt = lab.attempts[0]
    plan = StackPlan("bl1", (lvm("sdb", "sdc"),), "f")
    attempt.layout.plan = applied_part.to_json(plan)
    attempt.layout.save(update_fields=["plan"])
    attempt.windows = made.WINDOWS
    attempt.save(update_fields=["windows"])
    attempt.series.all().delete()
    made.sampled(attempt, disks=2)
    told = attempt.series.filter(device__in=["sdb", "sdc"], metric="read.bandwidth")
    # Seconds 23 to 58 lie wholly in what was measured, 22 to 58 s.
    mean = sum(sum(one.values[22:58]) / 36 for one in told)
    Measurement.objects.create(
        attempt=attempt, name="read.bandwidth", value=mean / 1.25, unit="B/s"
    )
    return attempt


def test_a_runs_page_tells_how_its_disks_worked(web, mirrored):
    answer = web.get(reverse("run-detail", args=[mirrored.run_id]))
    [row] = answer.context["work"]
    assert row.reads == pytest.approx(1.25) and row.read_text == "even"
    assert "<td>lvm, data</td>" in answer.content.decode() and "1.25" in answer.content.decode()


def test_a_plan_that_cannot_be_read_tells_nothing(web, lab):
    answer = web.get(reverse("run-detail", args=[lab.attempts[0].run_id]))
    assert answer.context["work"] == [] and b"device-work" not in answer.content
