# SPDX-License-Identifier: Apache-2.0
"""The builder: what a person has typed so far, what a button makes of it, its variant, and all that the page shows.

A variant is the stack without its cache or its log device, made beside it in one go: to tell what that is worth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest, QueryDict

from agents.drivers import protocols, registry
from benchlab.pages.topologies import host_fit
from benchlab.pages.topologies.host_fit import HostCapacity
from benchlab.topologies import canvas, forms, stack_edits
from benchlab.topologies.forms import LayerForms, StageForms
from benchlab.topologies.inspection import (
    Fault,
    Inspection,
    Remedy,
    all_offers,
    find_faults,
    inspect_stack,
)
from benchlab.topologies.models import required_disks
from benchlab.topologies.stack_edits import DiskSupply, StackEdit
from benchlab.web.driver_forms import DriverForm
from benchlab.web.texts import MAX_NAME_LENGTH, parse_row_id

# a field: make its variant, too
ALSO = "also"
# a button's word
UNDO = "undo"
# the field with what was typed when the last button was pressed; less these:
BEFORE = "before"
NOT_UNDONE = {
    "csrfmiddlewaretoken",
    ALSO,
    "do",
    "save",
    "check",
    "was",
    BEFORE,
    *forms.NameForm.base_fields,
}


@dataclass
class Draft:
    """A stack that nobody has stored yet. `at`: the layer whose options are open. `focus`: where a button led to.
    `before`: what Undo brings back, as a form sends it; "": nothing. `also`: its variant is wanted, too.
    """

    layers: list[LayerForms] = field(default_factory=list)
    stages: list[StageForms] = field(default_factory=list)
    at: int = 0
    focus: int | None = None
    before: str = ""
    also: bool = False


@dataclass(frozen=True, slots=True)
class OptionError:
    """An option that is wrong as it was typed. `remedy`: its default again, where it has one."""

    layer: int
    where: str
    message: str
    id: str
    remedy: Remedy | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """`css` is that of the badge, `word` its state in a word."""

    css: str
    word: str
    message: str
    problems: tuple[Fault, ...] = ()
    option_errors: tuple[OptionError, ...] = ()


def draft_from_post(post: QueryDict) -> Draft:
    """Read the draft as it was typed. Raises ValidationError for an unknown kind of layer."""
    layers = forms.from_post(post)
    at = min(stack_edits.parse_count(post.get("at", "")), max(len(layers) - 1, 0))
    stages = forms.stages_from_post(post, layers)
    return Draft(layers, stages, at, before=post.get(BEFORE, ""), also=ALSO in post)


def press_button(text: str, post: QueryDict, draft: Draft, shelf: DiskSupply) -> Draft:
    """Draft that a button makes of what was typed, which is kept for Undo; pressed twice, Undo changes nothing."""
    changed = _undo(draft.before) if text == UNDO else apply_button(text, draft, shelf)
    if changed is None:
        return draft
    typed = post.copy()
    for name in NOT_UNDONE:
        typed.pop(name, None)
    changed.before, changed.also = typed.urlencode(), draft.also
    return changed


def _undo(before: str) -> Draft | None:
    try:
        return draft_from_post(QueryDict(before)) if before else None
    except ValidationError:
        return None


def apply_button(text: str, draft: Draft, shelf: DiskSupply) -> Draft | None:
    """Draft that a button makes of it: nothing that was typed is lost. None for what is no button's word."""
    entries = [layer.typed() for layer in draft.layers]
    growths = [stage.typed() for stage in draft.stages]
    stages = _change_stages(text, growths, len(entries))
    if stages is not None:
        return _rebuild_draft(entries, stages, draft.at)
    act = stack_edits.parse_edit(text, len(entries))
    if act is None:
        return None
    order = stack_edits.order_after(act, len(entries))
    now = _open_layer(act, order, draft.at)
    edited = stack_edits.apply_edit(act, entries, shelf)
    growths = forms.move_stages(growths, order)
    return _rebuild_draft(edited, growths, now, now if order else None)


def _change_stages(
    text: str, growths: Sequence[Mapping[str, Any]], layers: int
) -> list[Mapping[str, Any]] | None:
    """The stages after "grow LAYER" or "drop STAGE", from 0; None for other words."""
    word, _, digits = text.partition(" ")
    number = parse_row_id(digits)
    if word == "grow" and number is not None and number < layers:
        return [*growths, {"layer": number + 1}]
    if word == "drop" and number is not None and number < len(growths):
        return [stage for at, stage in enumerate(growths) if at != number]
    return None


def _open_layer(act: StackEdit, order: Sequence[int | None], at: int) -> int:
    """The layer that is open afterwards: the one that was added, moved or changed; of one removed, its neighbour."""
    if act.word == "move":
        return int(act.more[0])
    if act.word == "remove":
        return max(min(act.at, len(order) - 1), 0)
    return act.at


def _rebuild_draft(
    entries: Sequence[Mapping[str, Any]],
    growths: Sequence[Mapping[str, Any]],
    at: int,
    focus: int | None = None,
) -> Draft:
    layers = forms.from_stack(entries)
    return Draft(layers, forms.from_entries(growths, layers), at, focus)


def chosen_capacity(request: HttpRequest) -> HostCapacity:
    """Return the capacity of the chosen host; a new page chooses one."""
    host_id = request.POST.get("sized", "") if request.method == "POST" else None
    return host_fit.host_capacity(request.user, host_id)


def builder_context(draft: Draft, on: HostCapacity) -> dict[str, Any]:
    """All that the page says of a draft."""
    shelf = on.shelf
    stack = [forms.understood_entry(layer) for layer in draft.layers]
    looked = inspect_stack(stack, shelf)
    faulty = tuple(_option_errors(draft.layers))
    wants = required_disks(
        [*stack, *({"devices": _device_groups(stage)} for stage in draft.stages)]
    )
    return {
        "draft": draft,
        "drawing": canvas.draw_stack(stack, looked, all_offers(stack, shelf)),
        "verdict": _draft_verdict(stack, shelf, looked, faulty),
        "options": _layer_options(draft, looked),
        "rows": canvas.layer_rows(looked),
        "total": canvas.usable_size(looked),
        "fits": host_fit.fit_table(stack, wants, looked, on),
        "wants": wants,
        "variant": find_variant(stack, (), shelf),
        "sized": on.host,
        "spares": on.choices,
        "growable": forms.growable(draft.layers),
        "awaits": any(
            registry.implements(layer.kind, protocols.BackgroundWork) for layer in draft.layers
        ),
        "roles": forms.COMMON_ROLES,
    }


def _device_groups(stage: StageForms) -> list[dict[str, Any]]:
    groups = stage.typed()["devices"]
    return [
        {**group, "count": stack_edits.group_count(group)}
        for group in groups
        if stack_edits.group_count(group)
    ]


@dataclass(frozen=True, slots=True)
class LayerOptions:
    """A layer's form, with what it comes to. `up` and `down`: acts that move it; None at the ends."""

    layer: LayerForms
    facts: list[tuple[str, str]]
    up: StackEdit | None
    down: StackEdit | None
    remove: StackEdit

    @property
    def layer_number(self) -> int:
        return self.layer.number + 1


def _layer_options(draft: Draft, looked: Inspection) -> list[LayerOptions]:
    """The top layer first, as it is drawn."""
    top = len(draft.layers) - 1
    return [
        LayerOptions(
            layer,
            canvas.layer_facts(looked, at + 1),
            StackEdit("move", at, (at + 1,)) if at < top else None,
            StackEdit("move", at, (at - 1,)) if at else None,
            StackEdit("remove", at),
        )
        for at, layer in reversed(list(enumerate(draft.layers)))
    ]


def _option_errors(layers: Sequence[LayerForms]) -> Iterator[OptionError]:
    for layer in layers:
        form = forms.bind_form(layer).options
        for name, errors in form.errors.items():
            where = form.fields[name].label if name in form.fields else ""
            message = " ".join(dict.fromkeys(map(str, errors))).removeprefix(f"{name}: ")
            label = f"Layer {layer.number + 1} ({layer.driver.LABEL})"
            spot = str(form[name].id_for_label) if name in form.fields else ""
            text = f"{label}, {where}" if where else label
            yield OptionError(
                layer.number + 1, text, message, spot, _default_remedy(form, layer, name)
            )


def _default_remedy(form: DriverForm, layer: LayerForms, name: str) -> Remedy | None:
    spec = form.specs.get(name)
    if spec is None or not isinstance(spec.default, bool | int | str):
        return None
    value = DriverForm(layer.driver.Options, prefix="default").initial[name]
    words = f"Set it to {value}" if value not in ("", None) else "Leave it empty"
    return Remedy(words, StackEdit("set", layer.number, (name, value)))


def _draft_verdict(
    stack: Sequence[Mapping[str, Any]],
    shelf: DiskSupply,
    looked: Inspection,
    faulty: tuple[OptionError, ...],
) -> Verdict:
    if not stack:
        return Verdict("badge-queued", "Empty", "Put the first layer on disks.")
    wrongs = tuple(find_faults(stack, shelf, looked))
    if faulty or looked.wrong:
        number = len(faulty) + len(looked.wrong)
        message = f"{number} thing{'s' * (number > 1)} to mend"
        return Verdict("is-bad", "Not valid", message, wrongs if looked.wrong else (), faulty)
    if looked.missing:
        return Verdict("is-warn", "Not finished", "A layer on top is missing.", wrongs)
    if stack[-1]["kind"] == "raw" or looked.reckoned.placed[-1].gives.mount == "":
        message = "A tool works on the volume as it is. A file system may go on top."
        return Verdict("is-good", "Valid", message)
    return Verdict("is-good", "Valid", "Every layer has what it stands on.")


USES = {"cache": "without the cache", "log": "without the log device"}
Entries = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Variant:
    words: str
    stack: list[dict[str, Any]]
    stages: list[dict[str, Any]]

    def variant_name(self, topology: str) -> str:
        end = f", {self.words}"
        return topology[: MAX_NAME_LENGTH - len(end)] + end


def find_variant(stack: Entries, stages: Entries, shelf: DiskSupply) -> Variant | None:
    """None: it has neither, or what is left could not be built."""
    for at, entry in enumerate(stack):
        has = {group["use"] for group in entry.get("devices", ()) if stack_edits.group_count(group)}
        for use in USES:
            variant = _remove_use(stack, stages, at, use, shelf) if use in has else None
            if variant and inspect_stack(variant.stack, shelf).valid:
                return variant
    return None


def _remove_use(stack: Entries, stages: Entries, at: int, use: str, shelf: DiskSupply) -> Variant:
    """Without those disks where the layer can do without them, else without the layer."""
    entries, growths = [dict(entry) for entry in stack], [dict(stage) for stage in stages]
    if registry.layer(entries[at]["kind"]).USES[use].least:
        act = StackEdit("remove", at)
        order = stack_edits.order_after(act, len(entries))
        return Variant(
            USES[use],
            stack_edits.apply_edit(act, entries, shelf),
            forms.move_stages(growths, order),
        )
    entries[at]["devices"] = [group for group in entries[at]["devices"] if group["use"] != use]
    return Variant(USES[use], entries, growths)
