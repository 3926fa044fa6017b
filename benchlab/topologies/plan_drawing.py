# SPDX-License-Identifier: Apache-2.0
"""A plan as a picture: disks below, what is made of them above, the tools' target on top. Boxes and lines only. Pure.

Disks lie in groups, one per layer and use, side by side. A layer is as wide as all disks beneath it, so a cache whose
SSD stands beside the slow disks spans both.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agents.contracts import Claim, Part
from agents.drivers import registry
from agents.facts.graph import Graph
from agents.facts.model import HostFacts
from agents.plans.stack import BELOW, Placed, StackPlan
from benchlab.topologies.stack_boxes import option_words
from benchlab.web.units import format_size

DISK_W, DISK_H, GAP, PAD, HEAD = 176, 78, 10, 10, 22
PIECE_W, PIECE_H = 176, 40
# pixels: a line of text, the room for arrows, around the picture
LINE, RISE, MARGIN = 17, 30, 6
MIN_WIDTH = 420
PER_ROW = 4
# disks of a group that are drawn; the table beside the picture has all of them
MAX_DISKS = 24
# width of a character of 12 px, on the safe side
CHAR_WIDTH = 7.4


@dataclass(frozen=True, slots=True)
class Text:
    x: int
    y: int
    words: str
    css: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    x: int
    y: int
    width: int
    height: int
    # "disk", "layer", "piece", "group", "target"; "added" too when a stage brings it
    css: str
    # in full, where the words in it are cut
    title: str = ""
    texts: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow upwards."""

    x: int
    # its foot
    y1: int
    y2: int
    css: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    width: int
    height: int
    title: str
    # the same in words
    says: str
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]

    @property
    def grows(self) -> bool:
        return any("added" in box.css for box in self.boxes)


@dataclass(frozen=True, slots=True)
class DiskGroup:
    """Disks of one use of one layer. `stage` is 0 for those it is built on."""

    layer: int
    use: str
    role: str
    disks: tuple[Claim, ...]
    stage: int = 0

    @property
    def caption(self) -> str:
        what = f"{self.use}: {len(self.disks)} × {self.role or 'disk'}"
        return f"{what}, added by stage {self.stage}" if self.stage else what

    @property
    def column_count(self) -> int:
        return min(len(self.disks), PER_ROW)

    @property
    def width(self) -> int:
        return max(self.column_count * (DISK_W + GAP) - GAP, DISK_W) + 2 * PAD

    @property
    def height(self) -> int:
        drawn = min(len(self.disks), MAX_DISKS)
        more = LINE if len(self.disks) > MAX_DISKS else 0
        return HEAD + -(-drawn // PER_ROW) * (DISK_H + GAP) - GAP + PAD + more


@dataclass(slots=True)
class _Canvas:
    boxes: list[Box] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)


def draw_plan(plan: StackPlan, facts: HostFacts | None = None) -> Drawing:
    """Draw the plan. `facts` provide the disks' serials; without them the identity stands there."""
    groups = _disk_groups(plan)
    lefts, rights = _group_positions(groups, len(plan.layers))
    canvas, serials = _Canvas(), _serials(groups, facts)
    y = _draw_target(canvas, plan, rights[-1])
    feet: dict[int, int] = {}
    for number in range(len(plan.layers), 0, -1):
        feet[number] = _draw_layer(canvas, plan.layers[number - 1], rights[number - 1], y)
        y = feet[number] + RISE
    y = y if groups else y - RISE
    for group, group_left in zip(groups, lefts, strict=True):
        _draw_disks(canvas, group, group_left, y, serials)
        canvas.edges.append(
            Edge(group_left + group.width // 2, y, feet[group.layer], _added_css(group))
        )
    width = max(
        [*rights, *(group_left + g.width for g, group_left in zip(groups, lefts, strict=True))]
    )
    height = y + max((group.height for group in groups), default=0)
    title = f"{plan.name}: what stands on what"
    return Drawing(
        width + MARGIN,
        height + MARGIN,
        title,
        _plan_text(plan, groups),
        tuple(canvas.boxes),
        tuple(canvas.edges),
    )


def _disk_groups(plan: StackPlan) -> list[DiskGroup]:
    """Groups in the order of the layers; the disks that a stage adds come right after those they are added to."""
    groups = [
        DiskGroup(number, devices.use, devices.role, layer.target.devices[devices.use])
        for number, layer in enumerate(plan.layers, start=1)
        for devices in layer.spec.devices
        if layer.target.devices.get(devices.use)
    ]
    for number, stage in enumerate(plan.stages, start=1):
        layer = stage.spec.layer
        before = plan.layers_after(number - 1)[layer - 1].target.devices
        after = stage.layers[layer - 1].target.devices
        for devices in stage.spec.devices:
            had = before.get(devices.use, ())
            new = tuple(claim for claim in after.get(devices.use, ()) if claim not in had)
            groups.append(DiskGroup(layer, devices.use, devices.role, new, number))
    return sorted((g for g in groups if g.disks), key=lambda g: (g.layer, g.stage))


def _group_positions(groups: Sequence[DiskGroup], layers: int) -> tuple[list[int], list[int]]:
    """Left end of each group, and right end of each layer."""
    lefts: list[int] = []
    rights: list[int] = []
    x = MARGIN
    for number in range(1, layers + 1):
        for group in groups:
            if group.layer == number:
                lefts.append(x)
                x += group.width + GAP
        rights.append(max(x - GAP, MARGIN + MIN_WIDTH))
        # what comes from further down must not cross this layer
        x = rights[-1] + GAP
    return lefts, rights


def _draw_target(canvas: _Canvas, plan: StackPlan, right: int) -> int:
    gives = plan.target
    where = gives.mount or gives.volume
    words = f"{where}, {format_size(gives.size)}" if gives.size else where
    _draw_text_box(canvas, "target", right, MARGIN, "What the tools work on", [words])
    return canvas.boxes[-1].y + canvas.boxes[-1].height + RISE


def _draw_layer(canvas: _Canvas, layer: Placed, right: int, y: int) -> int:
    """Draw the pieces that the layer makes, then the layer itself. Return the y of its foot."""
    if pieces := _made_pieces(layer):
        y = _draw_pieces(canvas, pieces, right, y)
    driver = registry.layer(layer.spec.kind)
    options = [
        f"{name} {words}" for name, words in option_words(driver.Options, layer.spec.options)
    ]
    _draw_text_box(canvas, "layer", right, y, driver.LABEL, [" · ".join(options), _makes(layer)])
    box = canvas.boxes[-1]
    canvas.edges.append(Edge((MARGIN + right) // 2, y, y - RISE))
    return box.y + box.height


def _made_pieces(layer: Placed) -> list[tuple[str, Part]]:
    """Pieces that the layer makes itself, such as partitions; not those that it was given and hands on."""
    below = layer.target
    nodes_below = {claim.node for disks in below.devices.values() for claim in disks} | {
        below.volume
    }
    nodes_below |= {part.node for parts in below.parts.values() for part in parts}
    pieces = [(use, part) for use, parts in layer.gives.parts.items() for part in parts]
    return [(use, part) for use, part in pieces if part.node not in nodes_below]


def _makes(layer: Placed) -> str:
    gives, below = layer.gives, layer.target
    texts = []
    if gives.volume and gives.volume != below.volume:
        texts.append(
            f"makes {gives.volume}" + (f", {format_size(gives.size)}" if gives.size else "")
        )
    if gives.pool and gives.pool != below.pool:
        texts.append(f"makes the pool {gives.pool}")
    if gives.mount and gives.mount != below.mount:
        texts.append(f"mounted at {gives.mount}")
    return "; ".join(texts)


def _draw_text_box(
    canvas: _Canvas, css: str, right: int, y: int, head: str, words: Iterable[str]
) -> None:
    width = right - MARGIN
    lines = [line for text in words for line in textwrap.wrap(text, int((width - 24) / CHAR_WIDTH))]
    texts = [Text(MARGIN + 12, y + 20, head, "head")]
    texts += [Text(MARGIN + 12, y + 20 + LINE * n, line) for n, line in enumerate(lines, start=1)]
    height = 30 + LINE * len(lines)
    canvas.boxes.append(Box(MARGIN, y, width, height, css, head, tuple(texts)))


def _draw_pieces(canvas: _Canvas, pieces: Sequence[tuple[str, Part]], right: int, y: int) -> int:
    per_row = max(1, (right - MARGIN + GAP) // (PIECE_W + GAP))
    for number, (use, part) in enumerate(pieces[:MAX_DISKS]):
        row, column = divmod(number, per_row)
        x, top = MARGIN + column * (PIECE_W + GAP), y + row * (PIECE_H + GAP)
        name = part.node.rpartition("/")[2]
        texts = (
            Text(x + 8, top + 16, _cut_text(name, PIECE_W), "node"),
            Text(x + 8, top + 16 + LINE, f"{use}, {format_size(part.size)}"),
        )
        title = f"{part.node}, {format_size(part.size)}, for {use}"
        canvas.boxes.append(Box(x, top, PIECE_W, PIECE_H, "piece", title, texts))
    rows = -(-min(len(pieces), MAX_DISKS) // per_row)
    canvas.edges.append(Edge((MARGIN + right) // 2, y, y - RISE))
    return y + rows * (PIECE_H + GAP) - GAP + RISE


def _draw_disks(
    canvas: _Canvas, group: DiskGroup, left_x: int, y: int, serials: Mapping[str, str]
) -> None:
    head = Text(left_x + PAD, y + 16, _cut_text(group.caption, group.width), "head")
    css = f"group {_added_css(group)}".strip()
    texts = [head]
    if len(group.disks) > MAX_DISKS:
        more = f"and {len(group.disks) - MAX_DISKS} more, in the table below"
        texts.append(Text(left_x + PAD, y + group.height - 8, more))
    canvas.boxes.append(Box(left_x, y, group.width, group.height, css, group.caption, tuple(texts)))
    for number, disk in enumerate(group.disks[:MAX_DISKS]):
        row, column = divmod(number, PER_ROW)
        x, top = left_x + PAD + column * (DISK_W + GAP), y + HEAD + row * (DISK_H + GAP)
        canvas.boxes.append(_disk_box(disk, group, x, top, serials[disk.node]))


def _disk_box(disk: Claim, group: DiskGroup, x: int, y: int, serial: str) -> Box:
    lines = (
        disk.node,
        disk.model or "unknown model",
        serial,
        f"{format_size(disk.size)}, {group.role}",
    )
    texts = tuple(
        Text(x + 8, y + 17 + LINE * n, _cut_text(line, DISK_W), "" if n else "node")
        for n, line in enumerate(lines)
    )
    return Box(x, y, DISK_W, DISK_H, f"disk {_added_css(group)}".strip(), ", ".join(lines), texts)


def _added_css(group: DiskGroup) -> str:
    return "added" if group.stage else ""


def _cut_text(words: str, width: int) -> str:
    most = int((width - 20) / CHAR_WIDTH)
    return words if len(words) <= most else words[: most - 1] + "…"


def _serials(groups: Iterable[DiskGroup], facts: HostFacts | None) -> dict[str, str]:
    graph = Graph(facts) if facts else None
    serials = {}
    for claim in (claim for group in groups for claim in group.disks):
        device = graph.find_device(claim.node) if graph else None
        serials[claim.node] = (device.serial if device else "") or claim.identity
    return serials


def _plan_text(plan: StackPlan, groups: Sequence[DiskGroup]) -> str:
    """Description of the plan from the bottom up, for people who cannot see the drawing."""
    sentences = []
    for number, layer in enumerate(plan.layers, start=1):
        own = [group for group in groups if group.layer == number and not group.stage]
        disks = ", ".join(f"{g.caption} ({' '.join(d.node for d in g.disks)})" for g in own)
        under = sorted(use for use in layer.target.devices if use != BELOW) and disks
        text = registry.layer(layer.spec.kind).LABEL
        text += f" on {under}" if under else ""
        text += f", {_makes(layer)}" if _makes(layer) else ""
        sentences.append(f"{number}. {text}.")
    for group in groups:
        if group.stage:
            sentences.append(f"{group.caption}: {' '.join(d.node for d in group.disks)}.")
    return "From the bottom up: " + " ".join(sentences)
