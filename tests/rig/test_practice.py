"""`manage.py practice` on the real thing: booted, registered, its disks ours to destroy."""

from __future__ import annotations

import io
import os

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from benchlab.hosts.models import Device, Host
from benchlab.practice import UmlHost
from benchlab.team.services import join_first_team

NAME = f"practice-{os.getpid()}"


def said(*words: str) -> str:
    out = io.StringIO()
    call_command("practice", "--name", NAME, *words, stdout=out)
    return out.getvalue()


@pytest.fixture
def machine(db, uml_image):
    join_first_team(User.objects.create_superuser("root"))
    machine = UmlHost(NAME)
    yield machine
    machine.stop()


def test_it_is_booted_registered_and_its_disks_are_spare(machine):
    assert "There is no practice host" in said("--status")
    assert "marked spare as ssd" in said()
    host = Host.objects.get(name=NAME)
    assert (host.port, host.user, host.trouble) == (machine.port, "root", "") and host.host_key
    roles = Device.objects.filter(spare=True).order_by("serial").values_list("serial", "role")
    assert list(roles) == [
        ("PRACTICE-FAST", "ssd"),
        *((f"PRACTICE-SLOW{n}", "hdd") for n in range(4)),
    ]
    assert not Device.objects.get(name="ubda").spare  # its system

    machine.kill()
    assert "is off" in said("--status")
    assert "marked spare" not in said()  # again: nothing is left to mark, and no second host
    assert Host.objects.get().pk == host.pk and "registered" in said("--status")

    assert "stopped" in said("--stop") and not machine.exists
    assert "no practice host" in said("--stop")


def test_a_host_of_that_name_is_not_taken_over(machine, monkeypatch):
    said()
    Host.objects.update(notes="mine")
    with pytest.raises(CommandError, match="another host of yours"):
        said()


def test_where_none_can_run_it_says_why(db, monkeypatch):
    monkeypatch.setattr(
        "benchlab.up.management.commands.practice.available", lambda: "practice hosts need root"
    )
    with pytest.raises(CommandError, match="need root"):
        said()
    assert not Host.objects.exists()
