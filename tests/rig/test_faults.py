"""Faults of docs/faults.md in a campaign on a real kernel: what is said of them is true, and the disks end blank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from shlex import quote
from threading import Timer

import pytest

from benchlab.engine import commands
from benchlab.practice import UmlHost
from benchlab.runs.models import Layout
from tests.rig.blank import assert_blank
from tests.rig.test_degraded import EXT4, campaign_on, on_rig, told, until_first_is
from tests.runs import drive
from tests.topologies.plans import layer

__all__ = ["campaign_on", "on_rig"]
pytestmark = [pytest.mark.rig, pytest.mark.django_db(transaction=True)]

RAW_EXT4 = [layer("raw", {}, data=("ssd", 1)), EXT4]
NOISY = "echo; echo Welcome; echo start=already; printf 'state=exited exit=0'; echo >&2 mail"


@contextmanager
def noisy(host: UmlHost) -> Iterator[None]:
    host.ssh(
        "sh", "-c", f"cd /root; cp .bashrc k || :>k; {{ echo {quote(NOISY)}; cat k; }} >.bashrc"
    )
    yield
    host.ssh("sh", "-c", "cd /root; mv k .bashrc")


def test_a_login_shell_that_prints_lines_disturbs_nothing(on_rig, rig_host):
    with noisy(rig_host):
        drive.to_the_end(on_rig(RAW_EXT4, "fio"))
    assert told() == [("succeeded", "", [])] * 3
    assert_blank(rig_host, "ubdb", "ubdc")


# What is done in a run or between two, what ends it, and words of the message that a person gets in the meantime.
HOLDS = {
    "a shell in the mount": (
        [*RAW_EXT4],
        "cd /mnt/benchlab/{name}; exec sleep 1000 >/dev/null 2>&1 </dev/null & echo $! >/run/held",
        "kill $(cat /run/held)",
        ("target is busy", "(sleep 1000) has its working directory in /mnt/benchlab/{name}"),
    ),
    "a snapshot of our volume": (
        [layer("lvm", {"type": "linear", "size": 256 << 20}, data=("ssd", 1)), EXT4],
        "lvcreate -qq --yes --snapshot --name mine --size 16M {name}/data",
        "lvremove -qq --yes {name}/mine",
        ("busy", "/dev/mapper/{name}-mine (lvm) stands on /dev/ubd"),
    ),
}


@pytest.mark.parametrize("kind", HOLDS)
def test_who_keeps_a_layout_from_being_taken_down_is_named(on_rig, rig_host, kind):
    stack, fault, cure, words = HOLDS[kind]
    campaign = on_rig(stack)
    until_first_is("done", campaign)
    layout = campaign.layouts.get()
    rig_host.ssh("sh", "-c", fault.format(name=layout.name))
    drive.to_the_end(campaign)
    layout.refresh_from_db()
    said = layout.trouble
    rig_host.ssh("sh", "-c", cure.format(name=layout.name))
    assert layout.phase == "stuck", said
    assert all(word.format(name=layout.name) in said for word in words), said
    assert len(said) < 600, said
    commands.retry_teardown(layout)
    drive.until(campaign, lambda: Layout.objects.filter(pk=layout.pk, phase="done").exists())
    assert_blank(rig_host, "ubdb", "ubdc")


@contextmanager
def full_tmp(host: UmlHost) -> Iterator[None]:
    fill = "mount -t tmpfs -o size=64k full /tmp; head -c 1M /dev/zero >/tmp/filler"
    host.ssh("sh", "-c", f"{fill} || test -s /tmp/filler")
    yield
    host.ssh("umount", "--lazy", "/tmp")


@contextmanager
def short_cut(host: UmlHost) -> Iterator[None]:
    healing = Timer(5.0, host.heal)
    host.cut()
    healing.start()
    yield
    healing.join()


HARMLESS = {"a full /tmp": full_tmp, "a network cut of 5 s": short_cut}


@pytest.mark.parametrize("kind", HARMLESS)
def test_what_runs_can_bear_costs_none_of_them(on_rig, rig_host, kind):
    campaign = on_rig(RAW_EXT4, "fio")
    until_first_is("running", campaign)
    with HARMLESS[kind](rig_host):
        drive.to_the_end(campaign)
    assert told() == [("succeeded", "", [])] * 3
    assert_blank(rig_host, "ubdb", "ubdc")
