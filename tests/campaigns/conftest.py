"""Small drivers of our own, so that these tests say what pages and services do, and not what fio does."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from django.utils import timezone

from agents.contracts import Job, Need, OptionsError, Use
from agents.drivers import registry
from benchlab.campaigns.services import create_workload
from benchlab.engine.new_runs import create_campaign
from benchlab.hosts.models import Credential, Device, Host
from benchlab.topologies.models import Topology
from benchlab.workers import messages


@dataclass(frozen=True)
class ToyOptions:
    rw: str = field(default="read", metadata={"choices": ("read", "write"), "help": "Direction"})
    depth: int = field(default=1, metadata={"minimum": 1, "help": "Outstanding I/Os"})
    seconds: int = field(default=10, metadata={"minimum": 1, "unit": "s"})
    direct: bool = True

    def __post_init__(self) -> None:
        if self.rw == "write" and self.depth > 64:
            raise OptionsError("depth: writes go up to 64")


@dataclass(frozen=True)
class NoOptions:
    pass


@dataclass(frozen=True)
class FsOptions:
    fstype: str = field(default="xfs", metadata={"choices": ("xfs", "ext4")})


def toy_job(options: ToyOptions, target) -> Job:
    writes = {"read": 0, "write": 1000 * options.depth}[options.rw]
    where = target.mount or target.volume
    return Job(("toy", where), expected_s=float(options.seconds), writes=writes)


TOY_TOOL = SimpleNamespace(
    LABEL="Toy",
    NEEDS=(Need("toy", {"debian": "toy-utils"}),),
    Options=ToyOptions,
    build_job=toy_job,
    build_precheck=lambda options, target: None,
    outstanding_ios=lambda options: options.depth,
    parse=lambda outputs, options: [],
)


def toy_layer(label: str, wants: str, gives: str, options: type, uses: dict[str, Use]):
    return SimpleNamespace(
        LABEL=label,
        REQUIRES=wants,
        PROVIDES=gives,
        Options=options,
        USES=uses,
        NEEDS=(),
        required_programs=lambda options: (),
    )


LAYERS = {
    "directory": toy_layer("Directory", "nothing", "mount", NoOptions, {}),
    "raw": toy_layer("Raw device", "nothing", "volume", NoOptions, {"data": Use("the disk")}),
    "filesystem": toy_layer("File system", "volume", "mount", FsOptions, {}),
}


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    monkeypatch.setattr(registry, "all_tools", lambda: {"toy": TOY_TOOL})
    monkeypatch.setattr(registry, "all_layers", lambda: LAYERS)


@pytest.fixture(autouse=True)
def nudges(monkeypatch) -> list[str]:
    """Messages that would have gone to Celery."""
    sent: list[str] = []
    monkeypatch.setattr(messages, "send", lambda task, pk: sent.append(f"{task}({pk})"))
    return sent


def make_host(team, name: str = "rig", **fields) -> Host:
    credential, _ = Credential.objects.get_or_create(
        team=team, name="key", defaults={"public_key": "ssh-ed25519 AAAA", "private_key": b"x"}
    )
    fields = {"address": "192.0.2.1", "host_key": "ssh-ed25519 AAAA", **fields}
    return Host.objects.create(team=team, name=name, credential=credential, **fields)


def make_spare(host: Host, name: str = "sdb", role: str = "ssd", size: int = 2**30) -> Device:
    return Device.objects.create(
        host=host, identity=f"serial:{name}", name=name, serial=f"SER-{name}", model="FastDisk",
        size=size, role=role, spare=True, spare_size=size, spare_model="FastDisk",
    )  # fmt: skip


RAW = [{"kind": "raw", "options": {}, "devices": [{"use": "data", "role": "ssd", "count": 1}]}]
DIRECTORY = [{"kind": "directory", "options": {}, "devices": []}]


@pytest.fixture
def host(team) -> Host:
    return make_host(team)


@pytest.fixture
def raw(team) -> Topology:
    return Topology.objects.create(team=team, name="Raw SSD", stack=RAW)


@pytest.fixture
def directory(team) -> Topology:
    return Topology.objects.create(team=team, name="Directory", stack=DIRECTORY)


@pytest.fixture
def workload(team, user):
    return create_workload(
        team=team, user=user, name="Reads", tool="toy", options={}, sweep={"depth": [1, 2, 4]}
    )


@pytest.fixture
def campaign(team, user, host, directory, workload):
    return create_campaign(
        team=team, user=user, name="How deep?", question="Where is the knee?", hosts=[host],
        topologies=[directory], workloads=[workload], repeats=2, order="as_written", seed=7,
    )  # fmt: skip


@pytest.fixture
def still(monkeypatch) -> None:
    """A clock that stands still: a page that takes a second tells the same duration as one that takes none."""
    moment = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: moment)
