"""A user's job file never reaches beyond the target."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.contracts import OptionsError, Target
from agents.outputs import fio_jobfile
from agents.outputs import fio_jobfile as jobfile
from agents.tools import fio
from benchlab.testing.profiles import examples

VOLUME = Target("bl1", volume="/dev/bl1/data", size=1 << 30)
DANGEROUS = [
    "filename=/dev/sda",
    "directory=/",
    "opendir=/etc",
    "filename_format=/etc/x",
    "exec_prerun=reboot",
    "exec_postrun=reboot",
    "ioengine=external:/x.so",
    "ioengine=exec",
    "ioengine=rbd",
    "read_iolog=/x",
    "write_iolog=/x",
    "write_lat_log=/x",
    "include /x",
    "include=/x",
    "unlink=1",
    "allow_mounted_write=1",
    "allow_file_create=1",
    "verify_state_load=1",
    "aux-path=/etc",
    "size=${HOME}",
    "size=`reboot`",
    "size=(1+1)",
    "buffer_pattern='/etc/passwd'",
    "bs=4k\x0bfilename=/dev/sda",
    "bs=4k\rfilename=/dev/sda",
    "bs=4k\u2028filename=/dev/sda",
    "mem=mmaphuge:/x",
    "FILENAME=/dev/sda",
    "cgroup=x",
    "ioscheduler=noop",
    "rate=1m,/etc/passwd",
    "bssplit=/etc/passwd",
]
LINES = st.one_of(
    st.sampled_from(
        [*DANGEROUS, "[global]", "[a]", "[b]", "rw=read", "bs=4k", "stonewall", "; x", ""]
    ),
    st.text(max_size=30),
)


@pytest.mark.parametrize("line", DANGEROUS)
def test_refused_in_a_job_file_and_as_extra(line: str) -> None:
    with pytest.raises(OptionsError, match="job_file line 3"):
        fio.Options(job_file=f"[global]\n[a]\n{line}\n")
    with pytest.raises(OptionsError, match="extra"):
        fio.Options(extra=(line,))


@settings(max_examples=examples(500))
@given(st.lists(LINES, max_size=8), st.sampled_from(["\n", "\r\n", "\n\n"]))
def test_whatever_passes_names_our_target_only(lines: list[str], end: str) -> None:
    try:
        options = fio.Options(job_file="[global]\n" + end.join(lines))
    except OptionsError:
        return
    written = fio.build_job(options, VOLUME).inputs["job.fio"].decode()
    fio.outstanding_ios(options)
    for line in written.splitlines():
        key = re.split(r"\s*=", line)[0]
        ours = line in ("filename=/dev/bl1/data", "allow_file_create=0")
        assert ours or line.startswith("[") or key in jobfile.ALLOWED
        assert len(line) < 600 and line.isascii() and line.isprintable()
    assert written.count("filename=") == 1


@given(st.text(max_size=40))
def test_paths(text: str) -> None:
    try:
        written = jobfile.escape_path("/mnt/" + text, "mount")
    except OptionsError:
        return
    assert written.isascii() and written.isprintable()
    assert written.replace("\\:", ":") == "/mnt/" + text and ".." not in written.split("/")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[a]\niodepth=8\nioengine=libaio\nnumjobs=2\n", 16),
        ("[a]\niodepth=8\n", 1),  # fio's default engine is synchronous
        ("[global]\nioengine=io_uring\niodepth=8\n[a]\n[b]\niodepth=2\n", 10),
        ("[a]\n[b]\nstonewall\n", None),
        ("[a]\n[b]\nwait_for_previous\n", None),
        ("[global]\nwait_for_previous=1\n[a]\n[b]\n", None),
    ],
)
def test_outstanding(text: str, told: int | None) -> None:
    assert fio.outstanding_ios(fio.Options(job_file=text)) == told


# Of fio 3.42, by its documentation.
NO_STORAGE = (
    "null", "cpuio", "exec", "net", "netsplice", "rdma", "dircreate", "dirdelete", "dirstat", "falloc", "filecreate",
    "filedelete", "filestat", "ftruncate",
)  # fmt: skip


def test_a_result_of_an_engine_without_storage_is_refused():
    told = {engine: fio_jobfile.without_storage(["libaio", f" {engine}"]) for engine in NO_STORAGE}
    assert [engine for engine, why in told.items() if f"ioengine={engine}, it" not in why] == []
    assert set(NO_STORAGE) == set(fio_jobfile.WITHOUT_STORAGE)
    assert fio_jobfile.without_storage(fio_jobfile.READ_AND_WRITE) == ""
