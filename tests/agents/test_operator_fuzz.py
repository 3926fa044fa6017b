"""Fields that a person below owner may set, filled with paths, commands, options and newlines: who acts stays the same.

Every text of every layer's, growth's and tool's options is drawn from what has opened doors elsewhere, alone, glued to
a word that is right, or made up. Whatever is accepted gives commands whose programs and scripts are the drivers' own:
what was typed is neither a program nor a part of a script, brings no option that its driver does not list, and names no
path outside of the layout's places. Words of an owner (a program, a script of one's own) are not for an operator to
set; that they are asked for is tests/team/test_own_code.py's.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import options
from agents.contracts import AgentError, Claim, Job, Step, Target
from agents.drivers import protocols, registry
from agents.layers import directory
from agents.outputs import fio_jobfile
from agents.outputs import fio_jobfile as jobfile
from agents.plans import stack
from agents.plans.chain import DiskRequest, LayerSpec
from agents.steps import fs_words
from agents.tools import pg_test_fsync
from benchlab.testing.profiles import examples
from tests.agents.made_up import GIB, LAYOUT, host, spare
from tests.agents.test_guard_plans import ABLE, DISKS, STACKS, able_disk

MARK = "zqx"  # in whatever is hostile, so that it is found again
HOSTILE = (
    f"/etc/{MARK}", f"/dev/{MARK}", "/dev/sda", f"../../{MARK}", f"/srv/../etc/{MARK}", f"//{MARK}", f"~/{MARK}",
    f"-{MARK}", f"--{MARK}", f"--rootdir=/{MARK}", f"-d/{MARK}", f"-L{MARK}", f"--config={MARK}", "-f", "--", "-",
    f";{MARK}", f"|{MARK}", f"&{MARK}", f"`{MARK}`", f"$({MARK})", f"${{{MARK}}}", f"'{MARK}", f'"{MARK}', f"\\{MARK}",
    f"\n{MARK}", f"\r\n{MARK}", f"\n[{MARK}]\nfilename=/dev/sda", f"\nexec_prerun={MARK}", f"\0{MARK}", f"\x1b{MARK}",
    f" {MARK}", f"\t{MARK}", f"={MARK}", f",{MARK}", f"%{MARK}", f"*{MARK}", f"{MARK}:/etc/passwd", f"{MARK}=/{MARK}",
    f"exec_prerun=/tmp/{MARK}", "filename=/dev/sda", f"write_bw_log=/etc/{MARK}", "ioengine=exec", f"mem=mmap:/{MARK}",
    f"ioengine=external:/tmp/{MARK}.so", f"verify_pattern='/etc/{MARK}'", f"kernel.core_pattern=|/tmp/{MARK}",
    f"kernel.modprobe=/tmp/{MARK}", f"logdev=/dev/{MARK}", f"uhelper={MARK}", f"journal_dev=/dev/{MARK}", "\u0663",
)  # fmt: skip
RIGHT: Mapping[str, tuple[str, ...]] = {
    "mkfs_options": ("-K", "-m", "0", "-d", "su=64k,sw=3", "-E", "lazy_itable_init=0", "-b", "4096", "--csum"),
    "mount_options": ("noatime", "data=ordered", "commit=5", "nobarrier,discard", "compress=zstd"),
    "sysctls": ("vm.dirty_ratio=10", "dev.raid.speed_limit_min=5000"),
    "scheduler": ("none", "mq-deadline"),
    "governor": ("performance",),
    "path": ("/srv/scratch", "/var/tmp/benchlab"),
    "instructions": ("Set the cache",),
    "check": ("lvs", "cat", "/proc/mdstat"),
    "user": ("nobody", "1000:1000"),
    "iflag": ("direct",), "oflag": ("sync",), "conv": ("fsync",),
    "access": ("8192,100,67,100,0,1,0,0",),
    "ioengine": ("libaio", "psync"),
    "extra": ("rate=1m", "bssplit=4k/50:8k/50"),
    "job_file": ("[global]\nrw=randread\n[a]\nsize=1m\n",),
    "override": ("iodepth", "rw"),
}  # fmt: skip
OWNERS = {"command"}  # tools that are one's own code
DRIVERS = {
    **{("layer", kind): driver for kind, driver in registry.all_layers().items()},
    **{("tool", kind): d for kind, d in registry.all_tools().items() if kind not in OWNERS},
}


@st.composite
def words(draw: st.DrawFn, name: str) -> str:
    """One text: right, hostile, or both glued together."""
    right = st.sampled_from(RIGHT.get(name, ("",)))
    bad = st.sampled_from(HOSTILE) | st.text(max_size=20).map(lambda text: f"{MARK}{text}")
    glued = st.tuples(right, st.sampled_from(("", "=", ",", " ", "\n", ":", ";", "/")), bad).map(
        "".join
    )
    return draw(right | bad | glued | st.tuples(bad, right).map("".join))


@st.composite
def filled(draw: st.DrawFn, kind: type[Any]) -> dict[str, Any]:
    """Options in which some texts, choices and numbers are not what the form would have sent."""
    found: dict[str, Any] = {}
    fields = dataclasses.fields(kind)
    # Texts open doors, and few at once: with all fields wrong nothing would be accepted, and nothing looked at.
    open_ = [spec.name for spec in fields if "str" in str(spec.type)] * 4
    chosen = (
        draw(st.lists(st.sampled_from(open_ + [spec.name for spec in fields]), max_size=2))
        if fields
        else []
    )
    for spec in fields:
        said = str(spec.type)
        choices = spec.metadata.get("choices")
        missing = (
            spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING
        )
        if not missing and spec.name not in chosen:
            continue
        if choices is not None:
            found[spec.name] = draw(st.sampled_from(choices) | words(spec.name))
        elif "tuple" in said:
            found[spec.name] = draw(st.lists(words(spec.name), max_size=3))
        elif "str" in said:
            found[spec.name] = draw(words(spec.name))
        elif "bool" in said:
            found[spec.name] = draw(st.booleans())
        else:
            least = spec.metadata.get("minimum", 0)
            usual = st.integers(least, least + 4) | st.just(least + 4096)
            found[spec.name] = draw(usual | st.sampled_from((-1, 2**63, 10**30)))
    return found


def texts(sent: Mapping[str, Any]) -> list[str]:
    """All that was typed and is not right as it stands."""
    found = [v for value in sent.values() for v in (value if isinstance(value, list) else [value])]
    return [one for one in found if isinstance(one, str) and MARK in one]


def built(driver: Any, sent: Mapping[str, Any]) -> Any:
    """None where it is refused, and nothing but a refusal may be raised."""
    try:
        return options.build_options(driver.Options, sent)
    except AgentError:
        return None


# ---- what a command may say

PATH = re.compile(r"(?:^|[=:,\s])(/[^\s,:=]*)")
OURS = re.compile(
    rf"/mnt/benchlab/{LAYOUT}(?:/.*)?|/dev/(?:{'|'.join(DISKS)})\d*|/dev/.*\b{LAYOUT}\b.*|/dev/bcache.*|/dev/(?:null|zero|urandom)"
    rf"|/sys/(?:block|fs/bcache|class/bdi|devices)/.*|/proc/sys/(?:vm|dev/raid)/[a-z_]+|/dev/disk/by-.*"
)


def check_words(argv: tuple[Any, ...], typed: list[str], allowed: tuple[str, ...] = ()) -> None:
    """`allowed`: other places that a driver's own words name, or that this layer's person may."""
    program, *rest = map(str, argv)
    assert MARK not in program and "/" not in program and program, argv
    script = rest[1] if program == "sh" and rest[0] == "-c" else None
    assert script is None or not any(one in script for one in typed), argv
    for word in (word for word in rest if word is not script):
        assert word.isprintable(), argv
        assert ".." not in word.split("/"), argv
        if allowed and word.startswith(allowed):
            continue
        assert word.isascii(), argv
        for path in PATH.findall(word):
            assert OURS.fullmatch(path) or path.startswith(allowed), (path, argv)
        assert not (word.startswith("-") and MARK in word), f"an option of their own: {argv}"


def steps_of(found: stack.StackPlan, facts: Any) -> Iterator[Step]:
    for step in found.steps:
        yield from (step, *step.undo)
    yield from stack.teardown_stack(found, facts)


SPECS = {
    **{spec.kind: specs for specs in STACKS.values() for spec in specs},
    "directory": (LayerSpec("directory", {}, ()),),
    "reported": (LayerSpec("reported", {"target": "sdz"}, ()),),
}


def test_every_driver_is_tried():
    assert {kind for what, kind in DRIVERS if what == "layer"} <= set(SPECS)


@pytest.mark.parametrize("kind", registry.all_layers())
@settings(max_examples=examples(4_000), deadline=None)
@given(data=st.data())
def test_a_layer_runs_its_own_commands_on_its_own_places(kind, data):
    driver = registry.all_layers()[kind]
    sent = data.draw(filled(driver.Options))
    chosen = built(driver, sent)
    if chosen is None:
        return
    whole = options.dump(chosen)
    specs = [LayerSpec(s.kind, whole, s.devices) if s.kind == kind else s for s in SPECS[kind]]
    disks = [able_disk(name, number) for number, name in enumerate(DISKS, 1)]
    facts = host(*disks, **ABLE)
    try:
        found = stack.plan_stack(specs, LAYOUT, facts, spare(*disks, role="ssd").values())
        every = list(steps_of(found, facts))
    except AgentError:
        return
    typed = texts(sent)
    places = (str(whole["path"]),) if kind == "directory" else ()
    for step in every:
        check_words(step.argv, typed, places)
        assert not any(one in step.stdin for one in typed)
        # Where a person says where, it is done as the user who logs in.
        assert not (places and step.root), step
    if kind == "filesystem":
        for step in every:
            _check_mkfs(step, str(whole["type"]))
    for layer in found.layers:
        ask = stack.manual_task(layer)
        if ask and ask.check:
            assert not ask.check.root and not any(MARK in str(word) for word in ask.check.argv[:1])


def _check_mkfs(step: Step, kind: str) -> None:
    """Every option of mkfs is one that a layout may set, or the driver's own."""
    if not str(step.argv[0]).startswith("mkfs."):
        return
    own = {"-L", "-q", "-f", "-F", "-U", "-m", "-n"}
    for word in map(str, step.argv[1:]):
        if word.startswith("-"):
            flag = word.partition("=")[0] if word.startswith("--") else word[:2]
            assert flag in own | set(fs_words.MKFS[kind]), step.argv


@pytest.mark.parametrize(
    ("kind", "devices"),
    [
        (kind, 1)
        for kind, one in registry.all_layers().items()
        if registry.implements(kind, protocols.Growable)
    ],
)
@settings(max_examples=examples(1_000), deadline=None)
@given(data=st.data())
def test_a_growth_runs_its_own_commands(kind, devices, data):
    driver = registry.implements(kind, protocols.Growable)
    sent = data.draw(filled(driver.Grow))
    specs = SPECS[kind]
    number = next(n for n, spec in enumerate(specs, 1) if spec.kind == kind)
    disks = [able_disk(name, n) for n, name in enumerate(DISKS, 1)]
    facts = host(*disks, **ABLE)
    stage = stack.StageSpec(number, sent, (DiskRequest("data", "ssd", devices),))
    try:
        found = stack.plan_stack(specs, LAYOUT, facts, spare(*disks, role="ssd").values(), [stage])
    except AgentError:
        return
    for step in found.steps:
        check_words(step.argv, texts(sent))


# ---- tools

MOUNT = Target(LAYOUT, mount=f"/mnt/benchlab/{LAYOUT}", size=4 * GIB)
CLAIMS = (Claim("serial:SN-sdb", "/dev/sdb", 4 * GIB, "Model X"),)
VOLUME = Target(LAYOUT, {"data": CLAIMS}, volume="/dev/sdb", size=4 * GIB)
TOOLS = [kind for what, kind in DRIVERS if what == "tool"]


@pytest.mark.parametrize("kind", TOOLS)
@settings(max_examples=examples(6_000), deadline=None)
@given(data=st.data())
def test_a_tool_runs_its_own_program_on_its_own_target(kind, data):
    driver = registry.tool(kind)
    sent = data.draw(filled(driver.Options))
    chosen = built(driver, sent)
    if chosen is None or registry.named_programs(kind, chosen):  # an owner's to say
        return
    whole, typed = options.dump(chosen), texts(sent)
    place = data.draw(words("path"))
    mounts = (
        [replace(MOUNT, mount=f"{place}/{LAYOUT}")] if built(directory, {"path": place}) else []
    )
    for target in (MOUNT, VOLUME, *mounts):
        try:
            jobs = [driver.build_job(options.build_options(driver.Options, whole), target)]
            jobs += [job for job in [driver.build_precheck(chosen, target)] if job]
        except AgentError:
            continue
        for job in jobs:
            check_job(kind, job, typed, target.mount)


def check_job(kind: str, job: Job, typed: list[str], mount: str) -> None:
    """`mount` may be any that the layer of a directory takes: what is said of it stays in one word, or is escaped."""
    if mount:
        ours = MOUNT.mount
        said = {
            name: c.replace(mount.replace(":", "\\:").encode(), ours.encode())
            for name, c in job.inputs.items()
        }
        job = replace(job, argv=tuple(word.replace(mount, ours) for word in job.argv), inputs=said)
    check_words(job.argv, typed, pg_test_fsync.PLACES if kind == "pg_test_fsync" else ())
    for name in (*job.outputs, *job.inputs):
        assert MARK not in name and "/" not in name.removeprefix("work/"), name
        assert not name.startswith("-"), name
    for name, value in job.env.items():
        assert re.fullmatch("[A-Z_]+", name) and MARK not in value, job.env
    for name, content in job.inputs.items():
        if name.endswith(".sh"):
            assert not any(one.encode("utf-8", "surrogatepass") in content for one in typed), name
        if name.endswith(".fio"):
            check_job_file(content.decode())


# What only the driver sets: the target, and its own logs.
OF_OURS = {"filename", "directory", "unlink", "allow_file_create", "per_job_logs", "log_hist_msec"}


def check_job_file(text: str) -> None:
    """Read as fio does, line by line: keys that are harmless, the target ours, no program, no file."""
    for line in text.split("\n"):
        if not line or line.startswith(("[", "#", ";")):
            continue
        key, _, value = line.partition("=")
        ours = key in OF_OURS or key.startswith("write_")
        assert ours or key in jobfile.ALLOWED, line
        for path in PATH.findall(value):
            assert OURS.fullmatch(path), line
        assert not set(value) & set("$`'\"\\|;&<>"), line
        if key == "ioengine":
            assert value in fio_jobfile.READ_AND_WRITE, line
        if key.startswith("write_"):
            assert "/" not in value, line
