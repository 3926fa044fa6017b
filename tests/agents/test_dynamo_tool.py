"""The tool: what it sends to the host, and that nothing but a whole session is ever read."""

from __future__ import annotations

import io
import json
import math
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import options as driver_options
from agents.contracts import OptionsError, ParseError, Target, Timing
from agents.dynamo import account, areas, bundle, specs, summary, transcript
from agents.dynamo.calibrate import Poll, calibrate_rate
from agents.dynamo.wire import DynamoError
from agents.safety.guard import job_refusals
from agents.tools import dynamo
from benchlab.testing.profiles import examples
from tests.agents.dynamo_vectors import session
from tests.agents.made_up import disk, host

CASES = Path(__file__).parents[1] / "cases" / "tools" / "dynamo"
FULL = (CASES / "full.bin").read_bytes()
MOUNTED = Target("bl1", mount="/mnt/bl1")
RAW = Target("bl1", volume="/dev/mapper/bl1-data", size=1 << 30)


def written(name: str, *notes: dict) -> bytes:
    """A captured session as the console would have kept it."""
    out: list[bytes] = []
    writer = transcript.Writer(out.append, 0.0)
    for note in notes:
        writer.write_note(0.0, note)
    for v in session(name):
        direction, channel = ">" if v.direction == "c2d" else "<", v.channel[0].upper()
        writer.write_message(direction, channel, v.t, v.whole)
    writer.write_end(9.0, transcript.COMPLETED)
    return b"".join(out)


def values(raw: bytes) -> dict[str, float]:
    found = dynamo.parse({"messages.bin": raw}, dynamo.Options())
    return {metric.name: metric.value for metric in found if not metric.labels}


def test_the_guard_lets_the_job_run() -> None:
    facts = host(disk("sda"), disk("nvme0n1"), disk("vda"), disk("dm-0"))
    job = dynamo.build_job(dynamo.Options(), MOUNTED)
    assert job_refusals(job.argv, job.inputs, MOUNTED, facts, {}, "bl1") == []


def test_the_guard_sees_a_raw_volume_that_is_not_the_layouts() -> None:
    """Only what the layout claimed; the settings name it, so that the guard reads it."""
    job = dynamo.build_job(dynamo.Options(), Target("bl1", volume="/dev/sda"))
    assert job_refusals(job.argv, job.inputs, RAW, host(disk("sda")), {}, "bl1") != []


def test_settings_reach_the_host_as_they_are() -> None:
    options = dynamo.Options(access=("4096,100,30,70",), workers=3, outstanding_ios=7, ramp_s=2)
    wish = areas.parse_settings(
        json.loads(dynamo.build_job(options, MOUNTED).inputs["config.json"])
    )
    assert wish.access == ("4096,100,30,70,0,1,4096,0",)
    assert (wish.workers, wish.outstanding, wish.ramp, wish.duration) == (3, 7, 2.0, 60.0)
    assert (wish.mount, wish.volume) == ("/mnt/bl1", "")


def test_without_settings_half_of_the_ios_are_reads_and_half_are_random() -> None:
    assert [(line.reads, line.random) for line in dynamo.access_lines(dynamo.Options())] == [
        (50, 50)
    ]


def test_the_program_is_sent_whole() -> None:
    job = dynamo.build_job(dynamo.Options(), MOUNTED)
    with zipfile.ZipFile(io.BytesIO(job.inputs[job.argv[1]])) as whole:
        assert whole.testzip() is None
        assert set(whole.namelist()) == set(bundle.sources())


@pytest.mark.parametrize(
    ("runtime", "poll"), [(1, 1 / 3), (6, 2.0), (9, 3.0), (60, 3.0), (36000, 10.0)]
)
def test_updates_are_seldom_for_they_cost_the_host_ios(runtime: int, poll: float) -> None:
    job = dynamo.build_job(dynamo.Options(runtime_s=runtime), MOUNTED)
    assert json.loads(job.inputs["config.json"])["poll"] == poll


def test_a_sweep_keeps_its_files() -> None:
    """Every point finds the file of the one before: the same names, the same size."""
    made = [dynamo.build_job(dynamo.Options(outstanding_ios=n), MOUNTED) for n in (1, 2, 4, 8, 16)]
    wishes = [areas.parse_settings(json.loads(job.inputs["config.json"])) for job in made]
    assert {(wish.size, wish.mount, wish.keep) for wish in wishes} == {(1 << 30, "/mnt/bl1", True)}


def test_series_are_the_updates() -> None:
    found = {s.metric: s for s in dynamo.parse_series({"messages.bin": FULL}, dynamo.Options())}
    assert found["iops"].values == pytest.approx((86108.7, 83570.65), rel=1e-6)
    assert found["iops"].times == pytest.approx((5.5315 - 4.0287, 7.0344 - 4.0287), abs=1e-6)
    assert all(len(s.times) == len(s.values) == 2 for s in found.values())


def test_it_tells_its_ramp_and_what_it_recorded() -> None:
    """The console began 0.5 s after the job, and recorded 4.0287 s later."""
    raw = {"messages.bin": written("full", {transcript.STARTED: 1000.0})}
    found = dynamo.parse_windows(raw, dynamo.Options(ramp_s=2), Timing(999.5, 1020.0, None))
    assert [(one.name, one.measured) for one in found] == [
        ("file layout", False),
        ("ramp", False),
        ("measured", True),
    ]
    assert found[1].start == pytest.approx(2.5287, abs=1e-4) and found[1].end == found[2].start
    assert found[2].start == pytest.approx(4.5287, abs=1e-4) and found[2].end > found[2].start + 3


def test_played_from_afar_it_tells_no_times() -> None:
    raw = {"messages.bin": written("full", {"far": True})}
    assert dynamo.parse_windows(raw, dynamo.Options(), Timing(999.5, 1020.0, None)) == []


def test_pattern_two_is_refused_with_its_reason() -> None:
    with pytest.raises(OptionsError, match="its writes fail"):
        driver_options.build_options(dynamo.Options, {"data_pattern": 2})


def test_what_asking_cost_stands_beside_the_figure() -> None:
    """Two updates of two workers: three messages each."""
    found = values(FULL)
    assert (found["poll.count"], found["poll.bytes"]) == (2, 2 * 3 * 888840)
    assert 0 < found["poll.share"] < 0.02
    (test,) = account.reconstruct_tests(transcript.parse_transcript(FULL))
    assert "IOPS may be too low" not in summary.summary_rows(test)[0].note
    late = test._replace(
        updates=tuple(u._replace(received=(u.sent_at + 0.3,) * 2) for u in test.updates)
    )
    assert "took up to 20.0% of the time" in summary.summary_rows(late)[0].note


def test_a_session_cut_at_any_byte_is_an_error() -> None:
    for cut in [*range(0, len(FULL), 7), len(FULL) - 1]:
        with pytest.raises(ParseError):
            dynamo.parse({"messages.bin": FULL[:cut]}, dynamo.Options())


@settings(max_examples=examples(500), deadline=None)
@given(st.integers(0, len(FULL) - 1), st.integers(1, 255))
def test_a_changed_byte_is_an_error(at: int, flip: int) -> None:
    changed = FULL[:at] + bytes([FULL[at] ^ flip]) + FULL[at + 1 :]
    with pytest.raises(ParseError):
        dynamo.parse({"messages.bin": changed}, dynamo.Options())


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_records_dropped_or_doubled_are_an_error(data: st.DataObject) -> None:
    start = data.draw(st.integers(len(transcript.MAGIC), len(FULL) - 2))
    end = data.draw(st.integers(start + 1, len(FULL) - 1))
    for changed in (FULL[:start] + FULL[end:], FULL[:end] + FULL[start:end] + FULL[end:]):
        with pytest.raises(ParseError):
            dynamo.parse({"messages.bin": changed}, dynamo.Options())


def test_a_session_of_any_messages_is_read_or_refused() -> None:
    """Messages left out before the check sums were made: still never a number out of step."""
    vectors = session("full")
    right = values(FULL)["ios"]
    for missing in {v.kind: v for v in vectors}.values():
        out: list[bytes] = []
        writer = transcript.Writer(out.append, 0.0)
        for v in vectors:
            if v is not missing:
                direction, channel = ">" if v.direction == "c2d" else "<", v.channel[0].upper()
                writer.write_message(direction, channel, v.t, v.whole)
        writer.write_end(9.0, transcript.COMPLETED)
        try:
            found = values(b"".join(out))
        except ParseError:
            continue
        assert found["ios"] == right, missing.kind


def test_bins_hold_every_io() -> None:
    for name in ("full", "two_targets"):
        found = dynamo.parse(
            {"messages.bin": (CASES / f"{name}.bin").read_bytes()}, dynamo.Options()
        )
        bins = [m.value for m in found if m.name == "lat.bin" and "worker" not in m.labels]
        assert len(bins) == 21
        assert sum(bins) == found[4].value
        assert found[4].name == "ios"


def test_outstanding_is_what_littles_law_says() -> None:
    """16 outstanding I/Os: the rate times the mean latency."""
    found = values(FULL)
    assert found["iops"] * found["lat.mean"] == pytest.approx(16, rel=0.005)


def polls(real: float, spans: tuple[float, ...], rtt: float = 0.002) -> list[Poll]:
    return [Poll(at, at + rtt, round(1e13 + real * (at + rtt / 2))) for at in spans]


def test_the_rate_is_measured_between_the_first_and_the_last_poll() -> None:
    """The example of the specification: 2596 MHz, of which dynamo believes 1200."""
    found = calibrate_rate(1.2e9, [polls(2.596e9, (1.0, 2.0, 3.0))])
    assert found.measured == pytest.approx(2.596e9, rel=1e-6)
    assert (found.used, found.reported, found.is_corrected) == (found.measured, 1.2e9, True)


def test_long_answers_do_not_make_the_clock_seem_too_fast() -> None:
    """dynamo reads its clock when it is asked; 0.85 MiB for each worker come afterwards, and RECORD_OFF is short."""
    asked = [Poll(1.0, 1.4, 1_001_000_000), Poll(4.0, 4.002, 4_001_000_000)]
    # by the middle 7 % more
    assert calibrate_rate(1.3e9, [asked]).measured == pytest.approx(1e9, rel=0.006)


def test_a_rate_that_is_nearly_right_is_left_alone() -> None:
    found = calibrate_rate(2.596e9, [polls(2.598e9, (1.0, 3.0))])
    assert (found.used, found.is_corrected) == (2.596e9, False)
    assert found.measured == pytest.approx(2.598e9, rel=1e-5)


def test_a_wrong_clock_is_not_called_right_where_answers_take_long() -> None:
    """IOPS were 5 to 8 % too high under "dynamo's own rate is right", though the measured rate was within 0.3 %."""
    asked = [Poll(at, at + 0.4, round(1e9 * (at + 0.003))) for at in (1.0, 2.0, 3.0)]
    asked.append(Poll(4.0, 4.002, round(4.001e9)))
    found = calibrate_rate(1.07e9, [asked])
    assert found.is_corrected and found.used == pytest.approx(1e9, rel=0.003)
    assert not found.is_certain and found.doubt == pytest.approx(0.154, abs=0.002)


# Seconds from question to answer, and to the reading of the clock, at both ends: a real dynamo beside busy loops.
BUSY = ((0.0197, 0.0003), (0.036, 0.0239))


@pytest.mark.parametrize(
    ("span", "reported", "wrong"),
    [(0.9963, 1.0, False), (0.9963, 1.1, True), (10.0, 1.0, False), (10.0, 1.05, True), (10.0, 0.95, True)],
)  # fmt: skip
def test_a_late_reading_does_not_make_a_right_clock_wrong(
    span: float, reported: float, wrong: bool
) -> None:
    """2.4 % in a second, which took 2 of 200 right clocks for wrong ones."""
    asked = [
        Poll(at, at + took, round(1e9 * (at + late)))
        for at, (took, late) in zip((1.0, 1.0 + span), BUSY, strict=True)
    ]
    assert calibrate_rate(1e9 * reported, [asked]).is_corrected == wrong


def test_a_right_clock_is_called_so_only_where_it_is_known() -> None:
    near, far = polls(1.002e9, (1.0, 2.0)), polls(1.002e9, (1.0, 2.0), rtt=0.1)
    assert calibrate_rate(1e9, [near]).is_certain and not calibrate_rate(1e9, [near]).is_corrected
    assert not calibrate_rate(1e9, [far]).is_certain and not calibrate_rate(1e9, [far]).is_corrected
    assert calibrate_rate(1e9, [polls(2e9, (1.0, 1.1))]).measured is None


def test_many_readings_bound_the_rate_better_than_the_first_and_the_last() -> None:
    quick = [Poll(at, at + 0.002, round(1e9 * (at + 0.001))) for at in (1.5, 3.5)]
    slow = [Poll(at, at + 0.4, round(1e9 * (at + 0.001))) for at in (1.0, 4.0)]
    assert (
        calibrate_rate(1e9, [[slow[0], *quick, slow[1]]]).doubt
        < 0.002
        < calibrate_rate(1e9, [slow]).doubt
    )


def test_the_verdict_on_the_clock_is_written_with_its_uncertainty() -> None:
    (test,) = account.reconstruct_tests(transcript.parse_transcript(FULL))
    doubtful = test._replace(rate=test.rate._replace(doubt=0.081))
    notes = {row.name: row.note for row in summary.summary_rows(doubtful) if not row.labels}
    assert "dynamo's clock rate is known to within 8.1% only" in notes["iops"]
    assert notes["tick_rate.measured"] == "dynamo's own rate is used; known to within 8.1% only"
    sure = {row.name: row.note for row in summary.summary_rows(test) if not row.labels}
    assert "dynamo's own rate is right" in sure["tick_rate.measured"] and not sure["iops"]


@pytest.mark.parametrize("real", [-1e9, 0.0])
def test_a_clock_that_goes_backwards_is_no_clock(real: float) -> None:
    with pytest.raises(DynamoError, match="went backwards"):
        calibrate_rate(1e9, [polls(real, (1.0, 3.0))])


def test_workers_whose_clocks_differ_are_refused() -> None:
    with pytest.raises(DynamoError, match="run at different rates"):
        calibrate_rate(1e9, [polls(1e9, (1.0, 3.0)), polls(1.1e9, (1.0, 3.0))])


@pytest.mark.parametrize("reported", [0.0, math.nan, -1.0, 1e30])
def test_a_rate_that_cannot_be_is_refused(reported: float) -> None:
    with pytest.raises(DynamoError):
        calibrate_rate(reported, [])


def test_a_time_that_is_not_ours_is_refused() -> None:
    (test,) = account.reconstruct_tests(transcript.parse_transcript(FULL))
    for late in (0.5, 1.5):
        with pytest.raises(DynamoError, match="cannot be trusted"):
            summary.summary_rows(test._replace(ended=test.began + 3.006 * late))
    assert summary.summary_rows(test)


@pytest.mark.parametrize("path", ["/", "relative", "/a [b", "/a\0b", "/" + "x" * 70, "/\ud800"])
def test_paths_that_dynamo_would_misread_are_refused(path: str) -> None:
    if path == "/":
        assert specs.target_name(path, raw=False) == "/ [files]"
        return
    with pytest.raises(DynamoError):
        specs.target_name(path, raw=False)


def test_the_longest_path_fits_and_carries_the_suffix() -> None:
    name = specs.target_name("/" + "x" * 69, raw=False)
    assert len(name) <= 79 and name.startswith("/" + "x" * 69 + " [")


def test_a_raw_device_has_no_suffix_and_lies_below_dev() -> None:
    assert specs.target_name("/dev/mapper/bl1-data", raw=True) == "/dev/mapper/bl1-data"
    for path in ("sdb", "/mnt/file"):
        with pytest.raises(DynamoError):
            specs.target_name(path, raw=True)


def test_a_large_sector_needs_an_alignment() -> None:
    """On NFS or ZFS a sector may be 128 KiB or more, and alignment 0 would mean that."""
    target = specs.disk_target("/mnt/nfs", 1 << 30, 1, 1, sector=1 << 20)
    lines = (specs.parse_access_line("8192,100,50,50,0,1,0"),)
    trial = specs.Trial(specs.AccessSpec("", lines), ((target,),))
    with pytest.raises(DynamoError, match="alignment 0 would mean 1048576"):
        specs.check_trial(trial)
    fine = (specs.parse_access_line("8192,100,50,50"),)
    specs.check_trial(trial._replace(access=specs.AccessSpec("", fine)))


def test_a_device_of_4096_byte_blocks_takes_no_smaller_ios() -> None:
    spec = specs.AccessSpec("", (specs.parse_access_line("512"),))
    specs.check_access(spec)
    with pytest.raises(DynamoError, match="multiple of 4096"):
        specs.check_access(spec, block=4096)


def test_seeds_differ_for_every_worker_and_target() -> None:
    seeds = {
        specs.target_seed(base, w, t) for base in (0, 1) for w in range(128) for t in range(32)
    }
    assert len(seeds) == 2 * 128 * 32


def test_no_limit_is_shorter_than_the_slowest_preparation() -> None:
    chosen = dynamo.Options(size=1 << 40, workers=2, own_targets=True, runtime_s=60)
    made = dynamo.build_job(chosen, MOUNTED)
    assert made.timeout_s > (2 << 40) / 5e6 + chosen.ramp_s + chosen.runtime_s


@pytest.mark.parametrize("writes", [30, 30.0, "30"])
def test_a_share_of_writes_is_read_as_a_share_of_reads(writes) -> None:
    renamed = dynamo.canonical_names({"write_percent": writes, "workers": 2})
    assert renamed == {"read_percent": 70, "workers": 2}


@pytest.mark.parametrize("told", [{"read_percent": 40}, {"write_percent": None}])
def test_other_options_keep_their_names(told) -> None:
    assert dynamo.canonical_names(told) == told


HASH = "sha256:" + "0a" * 32


@pytest.mark.parametrize("binary", ["dynamo", "/opt/dynamo", HASH])
def test_a_binary_is_on_the_path_absolute_or_stored(binary: str) -> None:
    assert dynamo.Options(binary=binary).binary == binary


@pytest.mark.parametrize("binary", ["bin/dynamo", "/opt/\n", HASH[:-1], f"{HASH}0", HASH.upper()])
def test_any_other_binary_is_refused(binary: str) -> None:
    with pytest.raises(OptionsError, match="binary"):
        dynamo.Options(binary=binary)
