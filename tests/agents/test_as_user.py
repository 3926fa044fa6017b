"""A tool that need not be root: what it may reach, what it may not, and that nothing of it stays."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from agents import options
from agents.contracts import Target
from agents.drivers import registry
from agents.jobs import job
from agents.jobs.job import State
from agents.outputs import sysbench_text
from agents.tools import _scripts, fio
from tests.agents.conftest import sh, shell_as
from tests.agents.spools import eventually, lives

FIRST, USERS = 61184, 4096
MODES = tuple(sysbench_text.MODES)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


SLOW = pytest.mark.slow


@pytest.fixture(
    params=["dash", pytest.param("busybox", marks=SLOW), pytest.param("bash", marks=SLOW)]
)
def shell(request, base):
    """Where other users reach it."""
    return shell_as(request.param, base / "bin")


@pytest.fixture
def here(base, shell):
    """Numbers are users here, and other processes run these tests meanwhile."""
    made = job.Spool(f"attempt-{os.getpid()}", root=True, base=str(base))
    yield made
    job.stop_job(shell, made)


@pytest.fixture
def mount(base):
    """A file system of the layout's own, which belongs to root."""
    place = base / "mount"
    place.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "mode=755,size=4m", "layout", str(place)]
    tried = subprocess.run(argv, capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {tried.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def ran(shell, here, work, outputs=()):
    job.start_job(shell, here, work)
    polled = job.poll(shell, here, 20, outputs=tuple(outputs))
    assert polled.state is State.EXITED, polled
    fetched = polled.fetched
    assert fetched.log == b""
    return fetched


def confined(script: str, place: Path, **more):
    return replace(sh(script, **more), unprivileged=True, place=str(place))


def test_it_has_its_place_and_its_outputs(shell, here, mount):
    script = (
        'id -u; id -G; cat given; echo out >out.txt; echo more >>"$0/file"; ls -ld "$0/file"'
        '; grep -E "^(Cap|NoNewPrivs)" /proc/self/status; ulimit -l; echo said >/dev/stderr'
    )
    work = confined(script, mount, inputs={"given": b"given\n"}, outputs=("out.txt",))
    work = replace(work, argv=(*work.argv, str(mount)), env={"A": "it's"})
    found = ran(shell, here, work, work.outputs)
    lines = found.files["stdout"].decode().splitlines()
    user = found.meta.user
    assert found.meta.why_root == "" and found.meta.exit_code == 0
    assert lines[:3] == [user, user, "given"] and FIRST <= int(user) < FIRST + USERS
    caps = dict(line.split(":\t") for line in lines if line.startswith(("Cap", "NoNew")))
    assert caps.pop("NoNewPrivs") == "1" and set(caps.values()) == {"0" * 16}
    raised = subprocess.run(["sh", "-c", "ulimit -l unlimited"], capture_output=True, check=False)
    assert raised.returncode or lines[-1] == "unlimited"
    assert found.files["out.txt"] == b"out\n" and found.files["stderr"] == b"said\n"
    # What it made there is gone, and the directory is root's again.
    assert list(mount.iterdir()) == [] and mount.stat().st_uid == 0
    assert f"{here.base}/benchlab-0" not in Path("/proc/self/mountinfo").read_text()
    job.remove_spool(shell, here)
    assert job.poll(shell, here).state is State.ABSENT


ATTACKS = {
    "shadow": "cat /etc/shadow",
    "shadow written": "echo x >>/etc/shadow",
    "control": 'echo x >>"$1/ended"',
    "command": 'cat "$1/command"',
    "elsewhere": "echo x >/etc/benchlab-was-here",
    "root's directory": "echo x >/root/benchlab-was-here",
    "mounts": "mount -t tmpfs none /mnt",
    "unmount": 'umount "$0"',
    "node": 'mknod "$0/node" b 8 0 && cat "$0/node"',
    "setuid": 'cp /bin/sh "$0/sh" && chown 0 "$0/sh"',
    "sudo": "sudo -n true || su -c true",
    "kill": "kill -0 1",
}


def test_it_reaches_nothing_else(shell, here, mount, base):
    tries = "\n".join(
        f"if ({script}) >/dev/null 2>&1; then echo {name.replace(' ', '-')!r}; fi".replace(
            "'s", "s"
        )
        for name, script in ATTACKS.items()
    )
    spool = base / "benchlab-0" / here.name
    work = confined(f"{tries}\necho through", mount)
    found = ran(shell, here, replace(work, argv=(*work.argv, str(mount), str(spool))))
    assert found.files["stdout"] == b"through\n"


def test_links_that_it_leaves_lead_nowhere(shell, here, mount):
    """In its outputs they are not read; on the layout they are gone before root runs a tool there."""
    script = 'ln -s /etc/shadow "$0/benchlab.dd"; ln /etc/hostname out.txt || echo no link'
    work = confined(script, mount)
    found = ran(shell, here, replace(work, argv=(*work.argv, str(mount))))
    assert found.files["stdout"] == b"no link\n" and list(mount.iterdir()) == []
    again = job.Spool("attempt-2", root=True, base=here.base)
    work = replace(sh('ls -A "$0"; id -u'), place=str(mount))
    found = ran(shell, again, replace(work, argv=(*work.argv, str(mount))))
    assert found.files["stdout"] == b"0\n" and found.meta.user == "0"


def test_nothing_of_it_runs_on(shell, here, mount):
    script = 'setsid sh -c "sleep 300 & wait" & sleep 0.3; ps -o pid= -u "$(id -u)"'
    found = ran(shell, here, confined(script, mount))
    pids = [int(word) for word in found.files["stdout"].split()]
    assert len(pids) >= 3
    eventually(lambda: not any(map(lives, pids)))


def test_a_killed_leader_leaves_nothing_behind(shell, here, mount):
    """Neither processes nor a directory that is open: `stop` ends it, or the next job there."""
    script = 'setsid sh -c "echo \\$\\$ >$0/pid; sleep 300" & sleep 300'
    work = confined(script, mount)
    job.start_job(shell, here, replace(work, argv=(*work.argv, str(mount))))
    eventually(lambda: (mount / "pid").exists() and (mount / "pid").read_text().strip())
    pid = int((mount / "pid").read_text())
    leader = next(
        line.split('"')[1].split()[0]
        for line in Path(here.base, "benchlab-0", here.name, "begun").read_text().splitlines()
        if line.startswith("leader=")
    )
    os.kill(int(leader), 9)
    eventually(lambda: job.poll(shell, here).state is State.VANISHED)
    assert lives(pid) and mount.stat().st_uid != 0
    job.stop_job(shell, here)
    assert not lives(pid) and mount.stat().st_uid == 0 and list(mount.iterdir()) == []


def test_the_next_job_takes_an_open_directory_back(shell, here, mount):
    user = FIRST + 17
    os.chown(mount, user, user)
    (mount / "benchlab.dd").symlink_to("/etc/shadow")
    os.lchown(mount / "benchlab.dd", user, user)
    (mount / "roots").touch()
    found = ran(shell, here, replace(sh("true"), place=str(mount)))
    assert found.meta.user == "0" and mount.stat().st_uid == 0
    assert [one.name for one in mount.iterdir()] == ["roots"]


def test_cancelled_it_ends_at_once(shell, here, mount):
    job.start_job(shell, here, confined("trap '' TERM; sleep 300 & wait; sleep 300", mount))
    eventually(lambda: job.poll(shell, here).state is State.RUNNING)
    stopped = job.stop_job(shell, here)
    assert stopped.state is State.KILLED and mount.stat().st_uid == 0


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"room": 1 << 40}, "the file system keeps the space"),
        ({"must_be_off": ("kernel/pid_max",)}, "/proc/sys/kernel/pid_max is "),
        ({"place": "/no/such/device"}, "/no/such/device could not be opened for another user"),
    ],
)
def test_where_it_cannot_be_root_runs_it_and_that_is_told(shell, here, mount, more, why):
    found = ran(shell, here, replace(confined("id -u", mount), **more))
    assert found.files["stdout"] == b"0\n" and found.meta.user == "0"
    assert found.meta.why_root.startswith(why)
    assert mount.stat().st_uid == 0


def test_a_program_in_a_closed_directory_is_run_by_root(shell, here, mount, tmp_path):
    """pytest's own directories are for one user."""
    program = tmp_path / "tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    found = ran(shell, here, replace(confined("id -u", mount), program=str(program)))
    assert found.files["stdout"] == b"0\n"
    assert found.meta.why_root == f"no other user can reach {program}"


@pytest.mark.parametrize("lacking", ["setpriv", "unshare", "flock"])
def test_a_host_without_the_programs(shell, here, mount, base, lacking):
    """As on old and small systems."""
    (base / "bin" / lacking).write_text("#!/bin/sh\nexit 1\n")
    (base / "bin" / lacking).chmod(0o755)
    found = ran(shell, here, confined("id -u", mount))
    assert found.files["stdout"] == b"0\n" and found.meta.why_root.startswith("this host")
    assert mount.stat().st_uid == 0


def test_a_quick_run_is_confined_too(shell, base):
    work = replace(sh("id -u; cat given", inputs={"given": b"x\n"}), unprivileged=True)
    said = job.run_short(shell, work, base=str(base))
    user, given = said.stdout.split()
    assert FIRST <= int(user) < FIRST + USERS and given == b"x" and said.exit_code == 0
    assert list((base / "benchlab-0").glob("short*")) == []


def test_a_user_who_exists_is_left_alone(shell, here, mount):
    """Somebody's processes run as it: another one is taken."""
    taken, after = (FIRST + (os.getpid() + more) % USERS for more in (0, 1))
    argv = [
        "setpriv",
        "--reuid",
        str(taken),
        "--regid",
        str(taken),
        "--clear-groups",
        "sleep",
        "60",
    ]
    with subprocess.Popen(argv) as other:
        time.sleep(0.2)
        found = ran(shell, here, confined("id -u", mount))
        assert found.meta.user == str(after)
        assert other.poll() is None
        other.kill()


def slow_chown(base):
    """The time between choosing a user and running as it, drawn out."""
    (base / "bin" / "chown").write_text(
        f'#!/bin/sh\nsleep 0.5\nexec {shutil.which("chown")} "$@"\n'
    )
    (base / "bin" / "chown").chmod(0o755)


LAID_OUT = [
    *(
        pytest.param(
            "sysbench", {"mode": mode, "size": 1 << 20, "files": 2, "time_s": 1}, marks=SLOW
        )
        for mode in MODES
    ),
    ("dd", {"direction": "read", "block_size": 4096, "count": 64}),
    pytest.param("bonnie", {"size": 0, "files": 1}, marks=SLOW),
]


@pytest.mark.parametrize(("kind", "told"), LAID_OUT, ids=str)
def test_the_page_cache_is_dropped_between_layout_and_measurement(
    shell, here, mount, base, kind, told
):
    """The tool's user asks for it; who writes all to the disks first is that user, and then root."""
    if shutil.which(registry.tool(kind).NEEDS[0].program) is None:
        pytest.skip(f"{kind} is not installed here")
    log = base / "synced"
    log.touch()
    log.chmod(0o666)
    (base / "bin" / "sync").write_text(f"#!/bin/sh\nid -u >>{log}\n")
    (base / "bin" / "sync").chmod(0o755)
    driver = registry.tool(kind)
    built, target = options.build_options(driver.Options, told), Target("bl1", mount=str(mount))
    assert registry.root_reason(kind, built, target) == ""
    work = replace(driver.build_job(built, target), drop_caches=False, unprivileged=True)
    found = ran(shell, here, replace(work, place=str(mount)), work.outputs)
    assert found.meta.exit_code == 0, found.files
    assert found.meta.user != "0" and found.meta.why_root == "" and driver.parse(found.files, built)
    assert log.read_text().split() == ([found.meta.user, "0"] if work.lays_out else [])
    assert work.lays_out == (kind != "bonnie" and told.get("mode") != "seqwr")


def test_a_layout_whose_cache_nobody_drops_fails(shell, here, mount, base):
    """Its figures would be those of the page cache."""
    script = _scripts.FORGET.decode() + (
        "echo $$ >pid; until [ -e killed ]; do sleep 0.1; done; forget; echo measured"
    )
    job.start_job(shell, here, replace(confined(script, mount), lays_out=True))
    spool = base / "benchlab-0" / here.name
    eventually(lambda: (spool / "work" / "pid").exists())
    noted = next(line for line in (spool / "running").read_text().split("\n") if "helpers=" in line)
    _, dropper = noted.split('"')[1].split()[::2]
    os.kill(int(dropper), 9)
    (spool / "work" / "killed").touch()
    polled = job.poll(shell, here, 20, outputs=())
    assert polled.state is State.EXITED and polled.exit_code != 0
    assert polled.fetched.files["stdout"] == b""


def test_what_a_command_leaves_is_there_for_the_next(shell, here, mount, base):
    """Of another user, who may change it; nothing that root could follow is among it, and nothing is root's."""
    again = job.Spool(f"attempt-{os.getpid() + 1}", root=True, base=here.base)
    first = 'id -u; cd "$BENCHLAB_MOUNT"; mkdir data; cd data; echo one >file; mkfifo pipe; ln -s /etc/shadow link'
    then = 'id -u; cd "$BENCHLAB_MOUNT/data"; ls -A; cat file; echo two >>file; cat file; rm file; mkdir new'
    users = set()
    for spool, script, after in ((here, first, ["file"]), (again, then, ["new"])):
        built = options.build_options(registry.tool("command").Options, {"command": script})
        work = registry.tool("command").build_job(built, Target("bl1", mount=str(mount)))
        work = replace(work, drop_caches=False, unprivileged=True, place=str(mount))
        found = ran(shell, spool, work)
        assert found.files["stderr"] == b"" and found.meta.user != "0"
        users.add(found.meta.user)
        assert [one.name for one in (mount / "data").iterdir()] == after
        assert mount.stat().st_uid == 0 != (mount / "data").stat().st_uid
        assert str((mount / "data").stat().st_uid) not in users
    assert found.files["stdout"].decode().split("\n")[1:-1] == ["file", "one", "one", "two"]
    assert len(users) == 2


@SLOW
def test_attempts_of_two_installations_never_have_one_user(shell, mount, base):
    """Their numbers are the same, and they begin in the same moment; the end of one leaves the other alone."""
    slow_chown(base)
    number = os.getpid()
    second = base / "second"
    second.mkdir()
    long, short = (job.Spool(f"{one}-{number}", root=True, base=str(base)) for one in "ab")
    try:
        job.start_job(shell, long, confined("id -u; sleep 2; echo whole", second))
        job.start_job(shell, short, confined("id -u", mount))
        users = set()
        for here in (short, long):
            polled = job.poll(shell, here, 20, outputs=())
            assert polled.state is State.EXITED and polled.exit_code == 0, polled
            users.add(polled.fetched.meta.user)
        assert polled.fetched.files["stdout"].endswith(b"whole\n")
    finally:
        for here in (long, short):
            job.stop_job(shell, here)
    assert len(users) == 2 and "0" not in users
    assert list((base / "benchlab-0").glob("user-*")) == []


def test_a_directory_is_taken_back_without_ending_who_has_its_user_now(shell, here, mount, base):
    """Its leader was killed, nothing of it ran on, and another job got the same user."""
    other = job.Spool(f"other-{os.getpid()}", root=True, base=str(base))
    place = base / "place"
    place.mkdir()
    job.start_job(shell, other, confined("echo $$ >pid; sleep 60", place, outputs=("pid",)))
    pid = base / "benchlab-0" / other.name / "work" / "pid"
    try:
        eventually(lambda: pid.exists() and pid.read_text().strip())
        user = pid.stat().st_uid
        os.chown(mount, user, user)
        (mount / "benchlab.dd").symlink_to("/etc/shadow")
        os.lchown(mount / "benchlab.dd", user, user)
        found = ran(shell, here, replace(sh("true"), place=str(mount)))
        assert found.meta.user == "0" and mount.stat().st_uid == 0
        assert list(mount.iterdir()) == []
        assert job.poll(shell, other).state is State.RUNNING and lives(int(pid.read_text()))
    finally:
        job.stop_job(shell, other)


DEVICE = Target("bl1", volume="/dev/sdb", size=1 << 40)
MOUNTED = Target("bl1", mount="/mnt/bl1", size=1 << 40)


@pytest.mark.parametrize(
    ("kind", "told", "target", "why"),
    [
        ("fio", {}, DEVICE, ""),
        ("fio", {"direct": False}, DEVICE, "empties the device's page cache"),
        ("fio", {"extra": ("invalidate=1",)}, DEVICE, "empties the device's page cache"),
        ("fio", {"direct": False}, MOUNTED, ""),
        ("fio", {"extra": ("prioclass=1", "nice=-5")}, MOUNTED, "fio's nice and prioclass"),
        ("fio", {"ioengine": "splice"}, MOUNTED, "splice"),
        ("fio", {"job_file": "[a]\nsize=100%\n"}, MOUNTED, "is not known"),
        ("fio", {"job_file": "[a]\ndirect=1\n[b]\nsize=1g\n"}, DEVICE, "page cache"),
        ("dd", {}, DEVICE, ""),
        ("dd", {"direction": "read"}, DEVICE, ""),
        ("dd", {"direction": "read"}, MOUNTED, ""),
        ("dd", {"iflag": ("noatime",)}, MOUNTED, "noatime"),
        ("pg_test_fsync", {"program": "/opt/x/pg_test_fsync"}, MOUNTED, ""),
        *(("sysbench", {"mode": mode}, MOUNTED, "") for mode in MODES),
        ("bonnie", {}, MOUNTED, ""),
        ("bonnie", {"user": "daemon"}, MOUNTED, "names the user"),
        ("dynamo", {}, DEVICE, "more than read and write the target"),
        ("command", {}, MOUNTED, ""),
        (
            "command",
            {"why_root": "it mounts what it measures"},
            DEVICE,
            "it mounts what it measures",
        ),
    ],
)
def test_which_tools_need_root(kind, told, target, why):
    built = options.build_options(registry.tool(kind).Options, told)
    said = registry.root_reason(kind, built, target)
    assert why in said and bool(why) == bool(said)


def test_fio_asks_for_no_flush_that_it_may_not_do():
    told = {"direct": True}, {"direct": False}
    jobs = [
        fio.build_job(options.build_options(fio.Options, one), target).inputs["job.fio"]
        for one in told
        for target in (DEVICE, MOUNTED)
    ]
    assert [b"invalidate=0" in one for one in jobs] == [True, False, False, False]
    asked = fio.build_job(options.build_options(fio.Options, {"ioengine": "io_uring"}), DEVICE)
    assert asked.must_be_off == ("kernel/io_uring_disabled",)
