"""A stranger's mapping with a common name refuses no job of our own tools; in whatever is not ours it still counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.contracts import AgentError, Job, Target
from agents.drivers import registry
from agents.safety import name_places
from agents.safety.guard import job_refusals
from benchlab.testing import profiles
from benchlab.testing.profiles import examples
from tests.agents.made_up import GIB, LAYOUT, claim, disk, host, spare

MINE = disk("sdb", mounts=[f"/mnt/benchlab/{LAYOUT}"])
RAW = disk("sdb")
MOUNT = Target(LAYOUT, {"data": (claim(RAW),)}, mount=f"/mnt/benchlab/{LAYOUT}", size=4 * GIB)
VOLUME = replace(MOUNT, mount="", volume="/dev/sdb")
MORE: dict[str, dict[str, Any]] = {
    "fio": {"log_avg_msec": 1000, "log_hist_msec": 1000, "extra": ("bssplit=4k/50:8k/50", "rate=1m")},
    "dd": {"direction": "read", "iflag": ("direct",), "oflag": ("sync", "nocache"), "conv": ("fsync",)},
    "bonnie": {"user": "data:data"},
    "dynamo": {"access": ("8192,100,67,100,0,1,0,0",)},
}  # fmt: skip


def jobs() -> list[tuple[str, Job, Target]]:
    """Of every tool whose words are its driver's own."""
    found = []
    for kind, driver in registry.all_tools().items():
        for target in (MOUNT, VOLUME):
            for options in ({}, MORE.get(kind, {})):
                try:
                    built = driver.Options(**options)
                    made = [driver.build_job(built, target), driver.build_precheck(built, target)]
                except AgentError:
                    continue
                found += [(kind, job, target) for job in made if job]
    return found


JOBS = jobs()
OWN = [one for one in JOBS if one[0] != "command"]


def refused(job: Job, target: Target, name: str) -> list[str]:
    """On a host where a stranger's mapping has that name."""
    other = disk("sdx", 30)
    mapped = disk("dm-7", 31, type="crypt", path=f"/dev/mapper/{name}", majmin="253:7", serial="",
                  parents=["sdx"])  # fmt: skip
    mine = MINE if target.mount else RAW
    facts = host(mine, other, mapped)
    return job_refusals(job.argv, job.inputs, target, facts, spare(mine), LAYOUT)


def words_of(job: Job) -> set[str]:
    texts = [
        *job.argv,
        *(content.decode("utf-8", "backslashreplace") for content in job.inputs.values()),
    ]
    found = {part for text in texts for part in text.replace("=", " ").replace(",", " ").split()}
    return {word for word in found if word.isidentifier() or word.isdecimal()}


@pytest.mark.draws
@pytest.mark.parametrize(
    ("kind", "job", "target"), OWN, ids=lambda one: one if isinstance(one, str) else ""
)
def test_a_mapping_named_like_any_word_of_a_job_refuses_none(kind, job, target):
    """`1`, `data`, `sync`, `randread`: a LUKS of a stranger had that name, and no run of the host was begun."""
    names = {
        *profiles.drawn(f"words of {kind}", sorted(words_of(job))[:40], quick=8, more=20),
        "0",
        "1",
        "5",
        "data",
        "sync",
        "fio",
        "mark",
        "root",
        "dd",
    }
    assert {name: said for name in names if (said := refused(job, target, name))} == {}


def test_every_script_of_the_drivers_is_known_word_for_word():
    for kind, job, _ in OWN:
        for name, content in job.inputs.items():
            assert (
                name in ("job.fio", "config.json")
                or content in registry.tool_scripts()
                or kind == "dynamo"
            )
            assert name_places._decode_content(name, content) is not None, name
        assert set(name_places.job_names_in(job.argv, {**job.inputs})[: len(job.argv)]) == {""}, (
            job.argv
        )


@pytest.mark.parametrize(
    ("argv", "files"),
    [
        (("sh", "command.sh"), {"command.sh": b"cryptsetup close vault\n"}),
        (("sh", "command.sh"), {"command.sh": b"cd /dev; cd mapper; dd if=/dev/zero of=vault\n"}),
        (("sh", "-c", "dmsetup remove vault"), {}),
        (("fio", "job.fio"), {"job.fio": b"[global]\ndirectory=vault\n[a]\n"}),
        (("fio", "job.fio"), {"job.fio": b"[global]\nfilename=vault\n[a]\n"}),
        (("fio", "job.fio"), {"job.fio": b"[a]\nfilename=x:vault\n"}),
        (("fio", "job.fio"), {"job.fio": b"[a]\nioengine=external:vault\n"}),
        (("fio", "job.fio"), {"job.fio": b"[a]\nwrite_bw_log=vault\n"}),
        (("fio", "job.fio"), {"job.fio": b"[a]\nopendir=vault\n"}),
        (("fio", "job.fio"), {"job.fio": b"include vault\n"}),
        (("fio", "job.fio", "vault"), {"job.fio": b"[a]\n"}),
        (("python3", "console.pyz", "run", "config.json"), {"config.json": b'{"volume": "vault"}'}),
        (("python3", "console.pyz", "run", "config.json"), {"config.json": b'{"access": [["vault"]]}'}),
        (("python3", "console.pyz", "run", "config.json"), {"config.json": b"vault"}),
        (("python3", "console.pyz", "run", "config.json"), {"console.pyz": b"os.remove( vault )"}),
        (("dd", "if=/dev/zero", "of=vault"), {}),
    ],
)  # fmt: skip
def test_where_a_name_can_stand_it_is_found(argv, files):
    job = Job(argv=argv, inputs=files)
    assert any("dm-7" in said for said in refused(job, MOUNT, "vault"))


NAME = "vault"


@settings(max_examples=examples(1_500), deadline=None)
@given(data=st.data())
def test_a_strangers_name_put_into_a_job_of_ours_is_found(data):
    """As a word of its command, as a line of a script or job file, glued to what names a file."""
    _, job, target = data.draw(st.sampled_from(JOBS))
    if data.draw(st.booleans()) or not job.inputs:
        at = data.draw(st.integers(0, len(job.argv)))
        script = job.argv[1]
        typed = at == 3 if script == "bonnie.sh" else script == "check.sh" and at > 1
        if typed:
            return  # the name of a user, or of an engine, which are no devices
        changed = replace(job, argv=(*job.argv[:at], NAME, *job.argv[at:]))
    else:
        name = data.draw(st.sampled_from(sorted(job.inputs)))
        text = job.inputs[name].decode("utf-8", "backslashreplace")
        line = data.draw(
            st.sampled_from(
                (
                    "{0}",
                    "filename={0}",
                    "directory={0}",
                    "dmsetup remove {0}",
                    "x={0}:y",
                    "opendir={0}",
                )
            )
        ).format(NAME)
        lines = text.split("\n")
        at = data.draw(st.integers(0, len(lines)))
        content = "\n".join([*lines[:at], line, *lines[at:]]).encode()
        changed = replace(job, inputs={**job.inputs, name: content})
    assert any("dm-7" in said for said in refused(changed, target, NAME)), changed


@settings(max_examples=examples(500), deadline=None)
@given(data=st.data(), extra=st.text(min_size=1, max_size=4))
def test_a_script_that_is_not_word_for_word_ours_is_read_wholly(data, extra):
    _, job, _ = data.draw(st.sampled_from([one for one in OWN if "job.fio" not in one[1].inputs]))
    for name, content in job.inputs.items():
        at = data.draw(st.integers(0, len(content)))
        changed = content[:at] + extra.encode("utf-8", "surrogatepass") + content[at:]
        said = name_places._decode_content(name, changed)
        assert said is None or name == "config.json"
