# SPDX-License-Identifier: Apache-2.0
"""Reading a host: its facts as a snapshot, and its whole disks as Device rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Protocol, cast

import cattrs
from django.db import transaction
from django.utils import timezone

from agents.contracts import AgentError, Claim, Need, Reason, Shell, Step
from agents.drivers import packages, registry
from agents.facts import reading
from agents.facts.model import BlockDevice, HostFacts
from agents.plaintext import CONTROL
from agents.safety import guard
from benchlab import app_modules
from benchlab.hosts import blocks, ssh_access
from benchlab.hosts.models import Device, FactSnapshot, Host
from benchlab.workers.lru_cache import LruCache

# characters of Device.in_use
IN_USE_MAX = 255
# Characters of one fact; the longest real one is what an overlay of many layers mounts
FACT_MAX = 4096
# with all partitions and volumes; a host with more is not understood
DEVICES_MAX = 10_000
# Fields of a disk's row that a reading fills.
DEVICE_FIELDS = ("name", "model", "serial", "wwn", "size", "rotational", "present", "in_use")
# nothing on a host carries it, so nothing counts as our own
NO_LAYOUT = "bl0"

_converter = cattrs.Converter()


# Tries what hostside/as_user.sh does: whether a tool can run as a user of its own.
CONFINEMENT = Need(
    "confines",
    version_argv=(
        *("unshare", "--mount", "--propagation", "slave", "flock", "-s", "/", "setpriv"),
        *("--reuid", "65279", "--regid", "65279", "--clear-groups", "--no-new-privs"),
        *("--bounding-set=-all", "--inh-caps=-all", "true"),
    ),
)


def required_programs() -> tuple[Need, ...]:
    """Every program that a layer or tool uses on a host, each once."""
    layers = [need for layer in registry.all_layers().values() for need in layer.NEEDS]
    tools = [need for tool in registry.all_tools().values() for need in tool.NEEDS]
    return tuple({need.program: need for need in layers + tools}.values())


def read_facts(host: Host, shell: Shell | None = None) -> FactSnapshot:
    """Read the host now; store its facts and bring its devices up to date.

    Raises AgentError. Called without a shell it connects, and records the trouble with the host when that fails.
    """
    if host.only_tool:
        return _facts_provider(host.only_tool).store_snapshot(host)
    needs = (*required_programs(), CONFINEMENT)
    if shell is not None:
        return store_facts(host, reading.read_facts(shell, needs))
    try:
        return store_facts(host, reading.read_facts(ssh_access.connect_to_host(host), needs))
    except AgentError as error:
        ssh_access.record_trouble(host, error)
        raise


class FactsProvider(Protocol):
    """Provider of facts. `ACCESS`: the value of Host.access. A tool reported all facts of such a host."""

    ACCESS: str

    def store_snapshot(self, host: Host) -> FactSnapshot: ...


@cache
def _facts_provider(access: str) -> FactsProvider:
    """The module `host_facts` of the room that knows the tool."""
    providers = {
        module.ACCESS: cast(FactsProvider, module)
        for module in app_modules.modules_named("host_facts")
    }
    return providers[access]


def read_current_facts(shell: Shell) -> HostFacts:
    """Read the host's devices as `store_facts` would keep them, without storing them. No tool is asked for its version.

    Raises AgentError.
    """
    return _converter.structure(_to_json(reading.read_facts(shell)), HostFacts)


def missing_program(kind: str, options: Mapping[str, Any], facts: HostFacts) -> str:
    """Program of a tool that the host lacks, and how to get it; "" when all are there. Raises OptionsError."""
    return packages.missing_programs(registry.tool_programs(kind, options), facts).sentence(
        facts.hostname
    )


def facts_of(snapshot: FactSnapshot) -> HostFacts:
    """Facts of a snapshot, structured once per object: a step asks for them several times, and they may be long."""
    cached: tuple[Any, HostFacts] | None = snapshot.__dict__.get("_structured")
    if cached is None or cached[0] is not snapshot.facts:
        cached = snapshot.facts, _converter.structure(snapshot.facts, HostFacts)
        snapshot.__dict__["_structured"] = cached
    return cached[1]


def _facts_at(snapshot_id: int) -> HostFacts:
    return facts_of(FactSnapshot.objects.only("facts").get(pk=snapshot_id))


# The facts of a stored snapshot, which is never changed: many steps ask for the same ones.
facts_at = LruCache(_facts_at)


def last_facts(host: Host) -> HostFacts | None:
    """Facts of the last reading; None if there is none, or its version cannot be understood any more."""
    return all_last_facts([host]).get(host.pk)


def all_last_facts(hosts: Iterable[Host]) -> dict[int, HostFacts]:
    """Facts of the last readings by host, without hosts that `last_facts` has none for. One query."""
    rows = FactSnapshot.objects.filter(host__in=[host.pk for host in hosts])
    newest = rows.order_by("host_id", "-pk").distinct("host_id")
    facts_by_host = {row.host_id: _structured_or_none(row) for row in newest}
    return {pk: facts for pk, facts in facts_by_host.items() if facts is not None}


def _structured_or_none(snapshot: FactSnapshot) -> HostFacts | None:
    try:
        return facts_of(snapshot)
    except cattrs.BaseValidationError:
        return None


def store_facts(host: Host, facts: HostFacts) -> FactSnapshot:
    """Keep `facts`, sync the devices, and note that the host answered. Raises AgentError."""
    plain = _to_json(facts)
    with transaction.atomic():
        _mark_answered(host)
        snapshot = _store_snapshot(host, plain)
        _sync_devices(host, facts_of(snapshot))
    return snapshot


def _mark_answered(host: Host) -> None:
    """Note that the host answered. This comes first, for it locks the row: two readers could store a snapshot twice."""
    fields = {"seen_at": timezone.now(), "trouble": "", "trouble_text": ""}
    if not Host.objects.filter(pk=host.pk).update(**fields):
        raise Host.DoesNotExist
    for name, value in fields.items():
        setattr(host, name, value)


def _store_snapshot(host: Host, plain: dict[str, Any]) -> FactSnapshot:
    """Return the newest snapshot if its facts are equal, else store a new one."""
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    now = timezone.now()
    latest = host.snapshots.defer("facts").first()
    if latest is None or latest.digest != digest:
        return FactSnapshot.objects.create(
            host=host, boot_id=plain["boot_id"][:64], facts=plain, digest=digest, seen_at=now
        )
    latest.facts, latest.seen_at = plain, now
    latest.save(update_fields=["seen_at"])
    return latest


def _sync_devices(host: Host, facts: HostFacts) -> None:
    """Device rows follow identity, so a disk keeps its role when the kernel renames it. However many changed, they
    are stored at once."""
    devices_by_identity: dict[str, list[BlockDevice]] = {}
    for device in filter(blocks.is_whole, facts.devices):
        devices_by_identity.setdefault(device.identity[:255], []).append(device)
    holding = host.layouts.holding().only("host", "tag").order_by().first()
    layout = holding.name if holding else NO_LAYOUT
    rows = {row.identity: row for row in host.devices.all()}
    values = {
        identity: _device_values(_preferred_path(devices), facts, layout)
        for identity, devices in devices_by_identity.items()
    }
    for identity, row in rows.items():
        if row.present and identity not in devices_by_identity:
            values[identity] = {name: getattr(row, name) for name in DEVICE_FIELDS} | {
                "present": False
            }
    changed = [
        Device(host=host, identity=identity, **fields)
        for identity, fields in values.items()
        if identity not in rows or _differs(rows[identity], fields)
    ]
    # These fields alone: what a person said of the disk meanwhile stays.
    Device.objects.bulk_create(
        changed,
        update_conflicts=True,
        unique_fields=["host", "identity"],
        update_fields=DEVICE_FIELDS,
    )


def _differs(row: Device, fields: Mapping[str, Any]) -> bool:
    return any(getattr(row, name) != value for name, value in fields.items())


def _device_values(device: BlockDevice, facts: HostFacts, layout: str) -> dict[str, Any]:
    """Values of the device's fields that a reading fills."""
    return {
        "name": device.name[:64],
        "model": device.model[:255],
        "serial": device.serial[:255],
        "wwn": device.wwn[:255],
        "size": device.size,
        "rotational": device.rotational,
        "present": True,
        "in_use": _in_use(device, facts, layout),
    }


def _preferred_path(devices: list[BlockDevice]) -> BlockDevice:
    """Several paths to one disk are known by multipath's device; of unexplained twins the guard speaks."""
    return next((device for device in devices if device.type == "mpath"), devices[0])


def _in_use(device: BlockDevice, facts: HostFacts, layout: str) -> str:
    """Reason for which the guard would refuse to destroy the device now, were it spare; "" when it would not."""
    claim = Claim(device.identity, device.path, device.size, device.model)
    spare = guard.Spare(device.identity, device.size, device.model, boot=facts.boot_id)
    # A command that only looks: the answer is about the device alone.
    step = Step(("lsblk",), "", destroys=(claim,))
    return _join_reasons(guard.refusals(step, facts, {device.identity: spare}, layout), IN_USE_MAX)


def _join_reasons(reasons: list[str], most: int) -> str:
    """Join as many whole reasons as fit into `most` characters; the first always comes, cut if necessary."""
    text = reasons[0][:most] if reasons else ""
    for reason in reasons[1:]:
        if len(text) + len(reason) + 2 > most:
            break
        text += f"; {reason}"
    return text


def _to_json(facts: HostFacts) -> dict[str, Any]:
    """Convert the facts to JSON that every page can show. Raises AgentError BAD_FACTS."""
    if len(facts.devices) > DEVICES_MAX:
        raise AgentError(
            f"the host reported {len(facts.devices)} devices, more than the limit of {DEVICES_MAX}",
            Reason.BAD_FACTS,
        )
    plain: dict[str, Any] = _clean_value(_converter.unstructure(facts))
    return plain


def _clean_value(value: Any) -> Any:
    if isinstance(value, str):
        # A disk's model must not be able to paint a terminal, nor a host name to fill a page.
        return CONTROL.sub("\N{REPLACEMENT CHARACTER}", value[:FACT_MAX])
    if isinstance(value, dict):
        return {_clean_value(key): _clean_value(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [_clean_value(item) for item in value]
    return value
