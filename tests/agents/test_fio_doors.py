"""Every option of the real fio that runs a program, opens a file or acts on the host: refused, or kept on the target.

The lists are deliberate: an option or engine that another fio brings fails here until somebody has looked at it. What
is not known to be harmless is refused by agents/outputs/fio_jobfile.py in any case.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from agents import options
from agents.contracts import OptionsError, Target
from agents.outputs import fio_jobfile
from agents.outputs import fio_jobfile as jobfile
from agents.tools import fio
from agents.tools._fio_options import Options
from tests.agents.made_up import LAYOUT
from tests.each_case import check_each

pytestmark = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")

PROGRAMS = ("exec_prerun", "exec_postrun")
FILES = (
    "filename", "directory", "filename_format", "opendir", "lockfile", "read_iolog", "write_iolog",
    "replay_redirect", "merge_blktrace_file", "write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log",
    "verify_state_load", "verify_state_save", "verify_dump", "unlink", "unlink_each_loop", "allow_file_create",
    "allow_mounted_write", "unique_filename", "log_store_compressed",
)  # fmt: skip
THE_HOST = (
    "ioscheduler", "cgroup", "cgroup_nodelete", "cgroup_weight", "uid", "gid", "lockmem", "profile", "wait_for", "name",
    "reset_zones",
)  # fmt: skip
# Of the command line and of job files, which --cmdhelp does not list; "" is what a line without = holds.
ELSEWHERE = (
    "include", "aux-path", "aux_path", "trigger", "trigger-file", "trigger_remote", "trigger-timeout", "output",
    "client", "server", "daemonize", "section", "showcmd", "status-interval", "bandwidth-log", "crctest", "external",
    "include /etc/passwd", "include=/etc/passwd",
)  # fmt: skip
# Of engines: what to connect to, run or load.
OF_ENGINES = (
    "program", "arguments", "grace_time", "std_redirect", "hostname", "port", "uri", "host", "pool", "chunk_size",
    "http_host", "namenode", "pidfile", "donorname", "clustername", "rbdname", "volume", "brick", "interface",
)  # fmt: skip
REFUSED = (*PROGRAMS, *FILES, *THE_HOST, *ELSEWHERE, *OF_ENGINES)
# Those that may be set and take words: what they take is a number, a list of numbers, or a word of fio's own.
WORDS = {
    "description", "rw", "bssplit", "randseed", "ignore_error", "rw_sequencer", "ioengine", "filesize", "number_ios",
    "random_generator", "random_distribution", "fallocate", "fadvise_hint", "file_service_type", "startdelay",
    "runtime", "ramp_time",
    "clocksource", "mem", "verify", "verify_pattern", "verify_backlog", "trim_backlog", "zonemode", "zonesize",
    "zonerange", "rate_process", "latency_target", "latency_window", "sync", "cpus_allowed", "cpus_allowed_policy",
    "numa_cpu_nodes", "buffer_pattern", "unified_rw_reporting", "continue_on_error", "steadystate",
    "steadystate_duration", "steadystate_ramp_time", "size", "io_size", "offset", "offset_increment", "zoneskip",
    "rate_cycle", "thinktime", "thinktime_spin", "max_latency", "bs", "loops", "nice", "percentile_list",
}  # fmt: skip
ACCEPTED = {
    "libaio", "io_uring", "psync", "sync", "vsync", "pvsync", "pvsync2", "posixaio", "mmap", "splice",
}  # fmt: skip
MOUNT = Target(LAYOUT, mount=f"/mnt/benchlab/{LAYOUT}", size=1 << 30)


@functools.cache
def said(*words: str) -> str:
    return subprocess.run(["fio", *words], capture_output=True, text=True, check=False).stdout


def options_of_fio() -> list[str]:
    lines = said("--cmdhelp=all").splitlines()
    return [line.partition(":")[0].strip() for line in lines if re.match(r"\s*[a-z_-]+\s*:", line)]


def engines_of_fio() -> list[str]:
    return re.findall(r"(?m)^\s+([a-z0-9_-]+)$", said("--enghelp"))


def options_of(engine: str) -> list[str]:
    """A heading may come first, and an engine may have none."""
    return re.findall(r"(?m)^\s*([a-z_0-9-]+)\s*:", said(f"--enghelp={engine}"))


def takes_words(option: str) -> bool:
    return "string (opt=bla)" in said(f"--cmdhelp={option}")


def refused(key: str, value: str | None) -> bool:
    """As an extra, as a line of a job file, and as one of its global ones."""
    line = key if value is None else f"{key}={value}"
    answers = []
    for given in ({"extra": (line,)}, {"job_file": f"[a]\nrw=read\n{line}\n"},
                  {"job_file": f"[global]\n{line}\n[a]\nrw=read\n"}):  # fmt: skip
        try:
            fio.build_job(options.build_options(Options, {"size": 1 << 20, **given}), MOUNT)
            answers.append(False)
        except OptionsError:
            answers.append(True)
    assert len(set(answers)) == 1, f"{line}: {answers}"
    return answers[0]


def test_fio_tells_its_options_and_engines():
    assert len(options_of_fio()) > 180 and {"libaio", "exec", "net"} <= set(engines_of_fio())
    assert set(FILES) - {"log_store_compressed"} <= set(options_of_fio())


@pytest.mark.parametrize("value", [None, "", "1", "/etc/zqx", "zqx", "x:/etc/zqx"])
def test_what_runs_a_program_or_opens_a_file_is_refused(value):
    assert [
        key for key in REFUSED if not (refused(key, value) and refused(f" {key} ", value))
    ] == []


def test_whatever_of_this_fio_takes_words_was_looked_at():
    known = set(options_of_fio())
    allowed = known & jobfile.ALLOWED
    unseen = [option for option in allowed - WORDS if takes_words(option)]
    assert unseen == [], "look at what they take"
    assert allowed.isdisjoint(REFUSED)
    assert [o for o in known - allowed if not (refused(o, None) and refused(o, "1"))] == []


def test_every_engine_of_this_fio_was_looked_at():
    """Its own options too: none that may be set takes words."""
    check_each(check_engine, engines_of_fio())


def check_engine(engine: str) -> None:
    assert (engine in ACCEPTED) != (engine in fio_jobfile.REFUSED), engine
    assert refused("ioengine", engine) == (engine not in ACCEPTED), engine
    for word in (f"{engine}:/tmp/zqx.so", f"external:/tmp/{engine}.so", f"/tmp/{engine}"):
        assert refused("ioengine", word)
    if engine in ACCEPTED:
        reads_and_writes(engine)
    own = set(options_of(engine)) & jobfile.ALLOWED
    for option in own:
        told = subprocess.run(
            ["fio", f"--enghelp={engine},{option}"], capture_output=True, text=True, check=False
        )
        assert "string (opt=bla)" not in told.stdout, (engine, option)


def reads_and_writes(engine: str) -> None:
    """The real fio writes a pattern by the engine, and the file has it afterwards; it reads it back and compares."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "data"
        words = [
            "--size=64k",
            "--bs=4k",
            "--verify=pattern",
            "--verify_pattern=0x62",
            "--do_verify=1",
        ]
        ran = subprocess.run(
            ["fio", "--name=a", f"--filename={place}", f"--ioengine={engine}", "--rw=write", *words],
            capture_output=True, text=True, check=False, cwd=folder,
        )  # fmt: skip
        if "Operation not permitted" in ran.stderr and engine == "io_uring":
            return  # a container may not
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert place.read_bytes().count(b"\x62") == 65536, engine


@pytest.mark.parametrize(
    "engine", sorted({*fio_jobfile.REFUSED, "null ", "aio", "zqx", "", "Libaio", "libaio,null"})
)
def test_an_engine_that_does_no_io_to_the_target_is_refused_everywhere(engine):
    """`ioengine=null` stored 365,423 IOPS of "xfs ssd". The words name the engines that may be used."""
    each = {
        "the form": {"ioengine": engine},
        "extra": {"extra": (f"ioengine={engine}",)},
        "a job": {"job_file": f"[a]\nrw=read\nioengine={engine}\n"},
        "[global]": {"job_file": f"[global]\nioengine={engine}\n[a]\nrw=read\n"},
        "a later job": {"job_file": f"[a]\nioengine=libaio\n[b]\nstonewall\nioengine={engine}\n"},
        "override": {"job_file": "[a]\nrw=read\n", "override": ("ioengine",), "ioengine": engine},
    }
    for where, given in each.items():
        if engine == "null " and where not in ("the form", "override"):
            continue
        with pytest.raises(OptionsError, match="Use one of libaio, io_uring, psync, ") as caught:
            fio.build_job(options.build_options(Options, {"size": 1 << 20, **given}), MOUNT)
        assert fio_jobfile.REFUSED.get(engine, "it is not known to ") in str(caught.value), where


TRIED = sorted(WORDS | {"bsrange", "rate", "cpus_allowed", "ss", "iomem", "blocksize", "timeout"})


@pytest.mark.parametrize("value", ["{out}", "x:{out}"])
def test_a_path_in_whatever_may_be_set_opens_no_file(tmp_path: Path, value):
    """The real fio runs it: nothing but its own file in the target and its result in its own directory."""
    check_each(lambda key: opens_no_file(tmp_path / key, key, value), TRIED)


def opens_no_file(place: Path, key: str, value: str) -> None:
    mount, cwd, outside = place / "mount", place / "cwd", place / "outside"
    for folder in (mount, cwd, outside):
        folder.mkdir(parents=True)
    given = value.format(out=outside / "zqx")
    target = Target(LAYOUT, mount=str(mount), size=1 << 20)
    try:
        chosen = Options(
            rw="write", size=65536, ioengine="psync", runtime_s=0, time_based=False, direct=False,
            extra=(f"{key}={given}",),
        )  # fmt: skip
        made = fio.build_job(chosen, target)
    except OptionsError:
        return
    for name, content in made.inputs.items():
        (cwd / name).write_bytes(content)
    with suppress(subprocess.TimeoutExpired):  # one that waits opens nothing either
        subprocess.run(made.argv, cwd=cwd, capture_output=True, timeout=5, check=False)
    assert list(outside.iterdir()) == []
    assert {one.name for one in place.iterdir()} == {"mount", "cwd", "outside"}
    assert {one.name for one in cwd.iterdir()} <= {"job.fio", *made.outputs}
