"""A topology's layers made into one plan for one host, and taken apart again. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import cattrs

from agents import options, registry
from agents.contracts import Argument, Claim, PlanError, Secret, Step, Target
from agents.facts.graph import Graph
from agents.facts.model import HostFacts
from agents.guard import Spare, claims_of

WORDS = {
    "nothing": "nothing",
    "devices": "disks",
    "volume": "a volume",
    "mount": "a mounted directory",
}
BELOW = "below"  # the use under which a layer is told all disks of the layers beneath it


@dataclass(frozen=True, slots=True)
class Wanted:
    """`count` disks of a role for one use of a layer."""

    use: str
    role: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """One layer of a topology, in terms of roles."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    devices: tuple[Wanted, ...] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """A layer on its host: `target` is what was given to its plan()."""

    spec: LayerSpec
    target: Target
    gives: Target
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class StackPlan:
    """The layers bottom up. `fingerprint` changes when the commands, or the disks, do."""

    name: str
    layers: tuple[Placed, ...]
    fingerprint: str

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(step for layer in self.layers for step in layer.steps)

    @property
    def target(self) -> Target:
        """What the tools work on."""
        return self.layers[-1].gives

    @property
    def claims(self) -> tuple[Claim, ...]:
        return claims_of(self.target)


def plan(
    specs: Sequence[LayerSpec], name: str, facts: HostFacts, pool: Iterable[Spare]
) -> StackPlan:
    """The layers, bottom up, on disks of the pool. Raises PlanError or OptionsError saying which layer."""
    check_chain(specs)
    free = _free(facts, pool)
    placed: list[Placed] = []
    below = Target(name)
    for number, spec in enumerate(specs, start=1):
        try:
            target = replace(below, devices={**_pick(spec, free), **_under(placed)})
            driver = registry.layer(spec.kind)
            made = driver.plan(options.build(driver.Options, spec.options), target, facts)
        except PlanError as error:
            raise PlanError(f"layer {number} ({spec.kind}): {error}", error.reason) from None
        below = replace(made.target, devices=target.devices)
        placed.append(Placed(spec, target, below, made.steps))
    steps = [step for layer in placed for step in layer.steps]
    return StackPlan(name, tuple(placed), _fingerprint(steps, claims_of(below), facts))


def specs(data: Iterable[Mapping[str, Any]]) -> list[LayerSpec]:
    """A topology's stored stack: {"kind", "options", "devices": [{"use", "role", "count"}]} for each layer."""
    return [
        LayerSpec(
            layer["kind"],
            layer.get("options", {}),
            tuple(Wanted(**wanted) for wanted in layer.get("devices", [])),
        )
        for layer in data
    ]


def check_chain(specs: Sequence[LayerSpec]) -> None:
    """Every layer stands on what the one below gives, and the top one on which a tool can work.

    Raises PlanError naming the layer.
    """
    if not specs:
        raise PlanError("a topology needs one layer at least")
    given, giver = "nothing", ""
    for number, spec in enumerate(specs, start=1):
        driver = registry.layer(spec.kind)
        where = f"layer {number} ({driver.LABEL})"
        takes_disks = number == 1 and driver.WANTS == "devices" and driver.USES
        if given != driver.WANTS and not takes_disks:
            below = (
                f"but {giver} gives {WORDS[given]}"
                if giver
                else "put a layer that gives one below it"
            )
            raise PlanError(f"{where} stands on {WORDS[driver.WANTS]}, {below}")
        _check_uses(where, driver.USES, [wanted.use for wanted in spec.devices])
        given, giver = driver.GIVES, where
    if given not in ("volume", "mount"):
        raise PlanError(
            f"{giver} gives {WORDS[given]}; a tool needs a volume or a mounted directory"
        )


def _check_uses(where: str, uses: Mapping[str, str], asked: Sequence[str]) -> None:
    for use in asked:
        if use not in uses or asked.count(use) > 1:
            raise PlanError(f"{where}: disks for {use!r}; its uses are {', '.join(uses) or 'none'}")


def _free(facts: HostFacts, pool: Iterable[Spare]) -> dict[str, list[Claim]]:
    """Role -> spare disks of this host in a lasting order. One that is not unambiguously here is left out."""
    free: dict[str, list[Claim]] = {}
    for spare in sorted(pool, key=lambda spare: spare.identity):
        here = [d for d in facts.devices if d.identity == spare.identity]
        if len(here) == 1 and (here[0].size, here[0].model) == (spare.size, spare.model):
            claim = Claim(spare.identity, here[0].path, spare.size, spare.model)
            free.setdefault(spare.role, []).append(claim)
    return free


def _pick(spec: LayerSpec, free: dict[str, list[Claim]]) -> dict[str, tuple[Claim, ...]]:
    """Takes from `free`, so that no disk is used twice."""
    picked = {}
    for wanted in spec.devices:
        if wanted.count < 1:
            raise PlanError(f"{wanted.use}: a count of {wanted.count} makes no sense")
        there = free.get(wanted.role, [])
        if len(there) < wanted.count:
            raise PlanError(
                f"{wanted.use} needs {wanted.count} {wanted.role or 'disk'}(s) and the host has"
                f" {len(there)} spare: mark more disks spare with that role, or ask for fewer"
            )
        picked[wanted.use] = tuple(there[: wanted.count])
        del there[: wanted.count]
    return picked


def _under(placed: Sequence[Placed]) -> dict[str, tuple[Claim, ...]]:
    return {BELOW: claims_of(placed[-1].gives)} if placed and claims_of(placed[-1].gives) else {}


def _fingerprint(steps: Sequence[Step], claims: Sequence[Claim], facts: HostFacts) -> str:
    """Of every command, and of each disk with all that is on it."""
    graph = Graph(facts)
    disks = []
    for claim in claims:
        device = graph.find(claim.node)
        on_it = sorted(graph.stack_on(device.name)) if device else []
        # The scheduler and such may change without harm.
        disks.append([asdict(claim), [_state(graph, name) for name in on_it]])
    content = json.dumps([_words(steps), disks], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _state(graph: Graph, name: str) -> list[Any]:
    device = graph.devices.get(name)
    if device is None:
        return [name]
    signatures = sorted([s.type, s.offset, s.label, s.uuid] for s in device.signatures)
    return [name, device.identity, device.path, device.size, device.model, signatures,
            sorted(device.holders), sorted(device.mounts), device.swap,
            graph.facts.members.get(name, "")]  # fmt: skip


def _words(steps: Iterable[Step]) -> list[Any]:
    return [[[str(w) for w in step.argv], step.stdin, _words(step.undo)] for step in steps]


def teardown(stack: StackPlan, facts: HostFacts) -> list[Step]:
    """Top down; only what is there. The order within a layer is the layer's."""
    steps: list[Step] = []
    for layer in reversed(stack.layers):
        driver, built = _driver(layer)
        steps += driver.teardown(built, layer.target, facts)
    return steps


def verify(stack: StackPlan, facts: HostFacts, upto: int | None = None) -> list[str]:
    """Differences between wish and host in the lowest `upto` layers (all, unless told).

    Below the top a layer is hidden by what stands on it, so only the top one of them can be looked at in full.
    """
    layers = stack.layers[:upto]
    if not layers:
        return []
    driver, built = _driver(layers[-1])
    kind = layers[-1].spec.kind
    return [f"{kind}: {wrong}" for wrong in driver.verify(built, layers[-1].target, facts)]


def _driver(layer: Placed) -> tuple[Any, Any]:
    driver = registry.layer(layer.spec.kind)
    return driver, options.build(driver.Options, layer.spec.options)


@dataclass(frozen=True, slots=True)
class Destroyed:
    """What is on a disk that a plan claims, for the page that asks whether it may go."""

    node: str
    identity: str
    model: str
    serial: str
    size: int  # bytes
    holds: tuple[str, ...]  # "sdb1: ext4 'home'"


def what_is_destroyed(stack: StackPlan, facts: HostFacts) -> list[Destroyed]:
    graph = Graph(facts)
    found = []
    for claim in stack.claims:
        device = graph.find(claim.node)
        names = graph.stack_on(device.name) if device else []
        holds = [
            f"{name}: {signature.type}" + (f" {signature.label!r}" if signature.label else "")
            for name in names
            if name in graph.devices
            for signature in graph.devices[name].signatures
        ]
        serial = device.serial if device else ""
        found.append(
            Destroyed(claim.node, claim.identity, claim.model, serial, claim.size, tuple(holds))
        )
    return found


_converter = cattrs.Converter(forbid_extra_keys=True)


def _dump_word(word: Argument) -> Any:
    if isinstance(word, Secret):
        raise PlanError("a plan with a secret in a command is not stored")
    return word


_converter.register_unstructure_hook(Argument, _dump_word)
_converter.register_structure_hook(Argument, lambda word, _: str(word))


def to_json(stack: StackPlan) -> dict[str, Any]:
    """As JSON data; `from_json(to_json(stack)) == stack`. Raises PlanError if it holds a secret."""
    data: dict[str, Any] = json.loads(json.dumps(_converter.unstructure(stack)))
    return data


def from_json(data: Mapping[str, Any]) -> StackPlan:
    """Raises PlanError for data that is no plan."""
    try:
        return _converter.structure(data, StackPlan)
    except Exception as error:
        said = "; ".join(cattrs.transform_error(error, path="plan"))
        raise PlanError(f"the stored plan cannot be read: {said}") from None
