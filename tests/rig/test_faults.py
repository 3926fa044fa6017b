"""Faults of docs/faults.md in a campaign on a real kernel: what is said of them is true, and the disks end blank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from shlex import quote

import pytest

from benchlab.practice import UmlHost
from tests.rig.blank import assert_blank
from tests.rig.test_degraded import EXT4, campaign_on, on_rig, told
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
