"""Reading a host: its facts as a snapshot, and its whole disks as Device rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import cattrs
from django.db import transaction
from django.utils import timezone

from agents import guard, packages, registry
from agents.contracts import AgentError, Claim, Need, Reason, Shell, Step
from agents.facts import reading
from agents.facts.model import BlockDevice, HostFacts
from agents.plaintext import CONTROL
from benchlab.hosts import blocks, contact, reported
from benchlab.hosts.models import Device, FactSnapshot, Host
from benchlab.runs.states import HOLDING

IN_USE_MAX = 255  # characters of Device.in_use
FACT_MAX = (
    4096  # characters of one fact; the longest real one is what an overlay of many layers mounts
)
DEVICES_MAX = 10_000  # with all partitions and volumes; a host with more is not understood
NO_LAYOUT = "bl0"  # nothing on a host carries it, so nothing counts as our own

_converter = cattrs.Converter()


def needs() -> tuple[Need, ...]:
    """Every program that a layer or tool uses on a host, each once."""
    layers = [need for layer in registry.all_layers().values() for need in layer.NEEDS]
    tools = [need for tool in registry.all_tools().values() for need in tool.NEEDS]
    return tuple({need.program: need for need in layers + tools}.values())


def read_facts(host: Host, shell: Shell | None = None) -> FactSnapshot:
    """Look at the host now; keep what was seen and bring its devices up to date.

    Raises AgentError. Called without a shell it connects, and records the trouble with the host when that fails.
    """
    if host.access == Host.Access.DYNAMO:
        return reported.keep(host)
    if shell is not None:
        return store(host, reading.read(shell, needs()))
    try:
        return store(host, reading.read(contact.connect(host), needs()))
    except AgentError as error:
        contact.record_trouble(host, error)
        raise


def look(shell: Shell) -> HostFacts:
    """The host's devices now, as `store` would keep them, without keeping them: no tool is asked for its version.

    Raises AgentError.
    """
    return _converter.structure(_plain(reading.read(shell)), HostFacts)


def missing_tool(kind: str, options: Mapping[str, Any], facts: HostFacts) -> str:
    """Which program of a tool the host lacks, and how to get it; "" when all are there. Raises OptionsError."""
    return packages.missing(registry.tool_needs(kind, options), facts).words(facts.hostname)


def facts_of(snapshot: FactSnapshot) -> HostFacts:
    return _converter.structure(snapshot.facts, HostFacts)


def store(host: Host, facts: HostFacts) -> FactSnapshot:
    """Keep `facts`, sync the devices, and note that the host answered. Raises AgentError."""
    plain = _plain(facts)
    with transaction.atomic():
        # One reader at a time per host, or two readings could insert the same disk.
        Host.objects.select_for_update().get(pk=host.pk)
        snapshot = FactSnapshot.objects.create(
            host=host, boot_id=plain["boot_id"][:64], facts=plain
        )
        _sync(host, facts_of(snapshot))
        host.seen_at, host.trouble, host.trouble_text = timezone.now(), "", ""
        host.save(update_fields=["seen_at", "trouble", "trouble_text"])
    return snapshot


def _sync(host: Host, facts: HostFacts) -> None:
    """Device rows follow identity, so a disk keeps its role when the kernel renames it."""
    seen: dict[str, list[BlockDevice]] = {}
    for device in filter(blocks.is_whole, facts.devices):
        seen.setdefault(device.identity[:255], []).append(device)
    holding = host.layouts.filter(phase__in=HOLDING).first()
    layout = holding.name if holding else NO_LAYOUT
    host.devices.exclude(identity__in=seen).update(present=False)
    for identity, devices in seen.items():
        device = _one_of(devices)
        Device.objects.update_or_create(
            host=host,
            identity=identity,
            defaults={
                "name": device.name[:64],
                "model": device.model[:255],
                "serial": device.serial[:255],
                "wwn": device.wwn[:255],
                "size": device.size,
                "rotational": device.rotational,
                "present": True,
                "in_use": _in_use(device, facts, layout),
            },
        )


def _one_of(devices: list[BlockDevice]) -> BlockDevice:
    """Several paths to one disk are known by multipath's device; of unexplained twins the guard speaks."""
    return next((device for device in devices if device.type == "mpath"), devices[0])


def _in_use(device: BlockDevice, facts: HostFacts, layout: str) -> str:
    """Why the device could not be destroyed now were it spare, as the guard says it; "" when it could."""
    claim = Claim(device.identity, device.path, device.size, device.model)
    spare = guard.Spare(device.identity, device.size, device.model, boot=facts.boot_id)
    # A command that only looks: the answer is about the device alone.
    step = Step(("lsblk",), "", destroys=(claim,))
    return _within(guard.refusals(step, facts, {device.identity: spare}, layout), IN_USE_MAX)


def _within(reasons: list[str], most: int) -> str:
    """As many whole reasons as fit into `most` characters; the first always comes, cut if it must be."""
    said = reasons[0][:most] if reasons else ""
    for reason in reasons[1:]:
        if len(said) + len(reason) + 2 > most:
            break
        said += f"; {reason}"
    return said


def _plain(facts: HostFacts) -> dict[str, Any]:
    """As JSON that every page can show. Raises AgentError BAD_FACTS."""
    if len(facts.devices) > DEVICES_MAX:
        raise AgentError(
            f"the host tells of {len(facts.devices)} devices, more than the {DEVICES_MAX} that are believed",
            Reason.BAD_FACTS,
        )
    plain: dict[str, Any] = _clean(_converter.unstructure(facts))
    return plain


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        # A disk's model must not be able to paint a terminal, nor a host name to fill a page.
        return CONTROL.sub("\N{REPLACEMENT CHARACTER}", value[:FACT_MAX])
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [_clean(item) for item in value]
    return value
