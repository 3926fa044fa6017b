# SPDX-License-Identifier: Apache-2.0
"""Forms of the import pages: what is the same for all results, and one per result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms

from benchlab.hosts.forms import RATED_IOPS, megabytes_to_bytes, rated_throughput
from benchlab.hosts.models import Host
from benchlab.imports.agreements import (
    MAX_CAMPAIGN_NAME,
    MAX_NEW_NAME,
    MAX_ORIGIN_TEXT,
    MOST_OUTSTANDING,
    MOST_RATED,
    ORIGIN,
    Agreement,
    Refused,
    ResultChoice,
    SourceDisks,
)
from benchlab.imports.machine import disk_names
from benchlab.imports.models import Draft
from benchlab.imports.readings import LOG_UNITS, Key, OfferedResult
from benchlab.imports.workloads import MAX_NAME as MAX_WORKLOAD_NAME
from benchlab.topologies.models import Topology

Choices = list[tuple[str, str]]
# roles on the page; the API takes any number, and other disks for each result
MAX_DISK_FORMS = 3
# more results than that are taken as one: nobody fills in so many rows
MAX_RESULT_FORMS = 500
OWN_RESULT = "a result of its own"


class SetUpForm(forms.Form):
    """Details that a person enters for one result, or for all of them."""

    host = forms.ChoiceField(required=False)
    new_host = forms.CharField(required=False, max_length=MAX_NEW_NAME, label="or a new host")
    topology = forms.ChoiceField(required=False)
    new_topology = forms.CharField(
        required=False, max_length=MAX_NEW_NAME, label="or a new topology"
    )
    workload = forms.CharField(required=False, max_length=MAX_WORKLOAD_NAME)
    log_unit = forms.ChoiceField(required=False, label="Its latencies are in")

    def set_choices(self, rows: SelectableRows, empty: str, *, needs_log_unit: bool) -> None:
        """Offer the rows, with a word for none of them."""
        none = ("", f"– {empty} –")
        choices_by_name: dict[str, Iterable[tuple[str, object]]] = {
            "host": rows.hosts.items(),
            "topology": rows.topologies.items(),
            "log_unit": LOG_UNITS.items(),
        }
        for name, choices in choices_by_name.items():
            _choice_field(self, name).choices = [none, *((key, str(row)) for key, row in choices)]
        if not needs_log_unit:
            del self.fields["log_unit"]


class CommonForm(SetUpForm):
    """The campaign, where it comes from, and what holds for every result that says nothing else."""

    campaign = forms.CharField(required=False, max_length=MAX_CAMPAIGN_NAME, label="Campaign")
    are_repeats = forms.BooleanField(
        required=False, label="They are repeats: store them as one workload"
    )
    question = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="What was the question that these results answer?",
    )
    title = forms.CharField(required=False, max_length=MAX_ORIGIN_TEXT, label="Title of the source")
    author = forms.CharField(required=False, max_length=MAX_ORIGIN_TEXT)
    date = forms.CharField(required=False, max_length=10, help_text="2013-05-07, 2013-05 or 2013")
    url = forms.CharField(required=False, max_length=MAX_ORIGIN_TEXT, label="Address")

    def __init__(
        self,
        rows: SelectableRows,
        needs_log_unit: bool,
        data: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data, **kwargs)
        self.fields["new_host"].label = "or a new host, by name"
        self.fields["new_topology"].label = "or a new topology, by name"
        self.fields["workload"].help_text = "Empty: named by what each result says of itself."
        self.fields["log_unit"].label = "Latencies of fio's logs are in"
        self.fields[
            "log_unit"
        ].help_text = "Some logs do not say it, and no result of fio beside them does."
        self.set_choices(rows, "choose", needs_log_unit=needs_log_unit)


# files of which the disks are offered, and characters of their names
MAX_FILES_OF_MACHINE = 20
MAX_NAMES = 300


class DisksForm(forms.Form):
    """Disks of one role, alike; empty where the source tells of none."""

    role = forms.CharField(
        required=False, max_length=32, help_text="As the topology has it: ssd, hdd"
    )
    names = forms.CharField(
        required=False, max_length=5000, label="Disks", help_text="Their names, in order: sda sdb"
    )
    rated_iops = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST_RATED,
        label="Rated IOPS",
        help_text=RATED_IOPS,
    )
    rated_mb = rated_throughput()

    def offer_names(self, names: str) -> None:
        """Show names that the text has; only what a person types is taken."""
        self.fields["names"].help_text = f"Their names, in order. The text shows: {names}"

    @property
    def filled(self) -> bool:
        return any(value not in (None, "") for value in self.cleaned_data.values())

    def source_disks(self) -> SourceDisks:
        cleaned = self.cleaned_data
        names = tuple(cleaned["names"].replace(",", " ").split())
        return SourceDisks(
            cleaned["role"], names, cleaned["rated_iops"], megabytes_to_bytes(cleaned["rated_mb"])
        )


class ResultForm(SetUpForm):
    """Form of what differs for one result."""

    take = forms.BooleanField(required=False, initial=True)
    outstanding = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST_OUTSTANDING,
        label="Outstanding I/Os",
        help_text="The text does not tell; leave it empty if unknown.",
    )
    beside = forms.ChoiceField(required=False, label="Belongs to")
    interval = forms.FloatField(
        required=False,
        min_value=0,
        label="Seconds between reports",
        help_text="No command is shown: empty if unknown.",
    )
    first_counts = forms.BooleanField(
        required=False, label="The first report is like the others (-y), not the average since boot"
    )

    field_order = (
        "take",
        "host",
        "new_host",
        "topology",
        "new_topology",
        "workload",
        "outstanding",
        "beside",
        "interval",
        "first_counts",
        "log_unit",
    )

    def __init__(
        self,
        result: OfferedResult,
        rows: SelectableRows,
        results: Choices,
        data: Mapping[str, Any] | None,
    ) -> None:
        super().__init__(data, prefix=f"r{_choice_value(result.result_key)}")
        self.fields["workload"].widget.attrs["placeholder"] = result.workload_name
        if result.parsed.described:
            for name in set(self.fields) - {"take", "workload"}:
                del self.fields[name]
            return
        self.set_choices(rows, "as above", needs_log_unit=result.needs_log_unit)
        if result.parsed.outstanding is not None or result.parsed.varies == "outstanding":
            del self.fields["outstanding"]
        if not result.needs_reports:
            del self.fields["interval"], self.fields["first_counts"]
        if not result.watches:
            del self.fields["beside"]
            return
        beside = _choice_field(self, "beside")
        beside.choices = [("", OWN_RESULT), *results]
        beside.initial = _nearest(result, results)


def _choice_field(form: forms.Form, name: str) -> forms.ChoiceField:
    field = form.fields[name]
    assert isinstance(field, forms.ChoiceField)
    return field


@dataclass(frozen=True, slots=True)
class SelectableRows:
    """The hosts and topologies that may be chosen, asked for once."""

    hosts: Mapping[str, Host]
    topologies: Mapping[str, Topology]

    @staticmethod
    def load_rows(draft: Draft) -> SelectableRows:
        return SelectableRows(
            {str(row.pk): row for row in Host.objects.filter(team=draft.team)},
            {str(row.pk): row for row in Topology.objects.current().filter(team=draft.team)},
        )


def _choice_value(key: Key) -> str:
    return f"{key[0]}-{key[1]}"


def _choice_key(value: str) -> Key:
    file, _, first = value.partition("-")
    return int(file), int(first)


def _nearest(result: OfferedResult, results: Choices) -> str:
    """Result of the same file before this one, or else after it: most likely the one it watched; "" without any."""
    keys = [_choice_key(value) for value, _ in results]
    same = [key for key in keys if key[0] == result.result_key[0]]
    before = [key for key in same if key < result.result_key]
    nearest = max(before) if before else min(same, default=None)
    return _choice_value(nearest) if nearest else ""


class DraftForms:
    """All forms of a draft's page."""

    def __init__(
        self, draft: Draft, results: Sequence[OfferedResult], data: Mapping[str, Any] | None
    ) -> None:
        self.rows = SelectableRows.load_rows(draft)
        self.results = [result for result in results if not result.parsed.trouble]
        self.is_itemized = len(self.results) <= MAX_RESULT_FORMS
        # Else there are workloads only
        self.runs = any(not result.parsed.described for result in self.results)
        self.needs_log_unit = any(result.needs_log_unit for result in self.results)
        self.common = CommonForm(
            self.rows, self.needs_log_unit, data, initial={"campaign": draft.name}
        )
        numbered = {result.result_key: number for number, result in enumerate(results, 1)}
        self.measured: Choices = [
            (
                _choice_value(result.result_key),
                f"{numbered[result.result_key]}: {result.parsed.title}"[:100],
            )
            for result in self.results
            if not result.watches and not result.parsed.described
        ]
        self.disks = [
            DisksForm(data, prefix=f"disks{n}") for n in range(MAX_DISK_FORMS * self.runs)
        ]
        if self.disks and (names := self._disks_in_text(draft)):
            self.disks[0].offer_names(names)
        self.forms: dict[Key, ResultForm] = {
            result.result_key: ResultForm(result, self.rows, self.measured, data)
            for result in (self.results if self.is_itemized else ())
        }

    def _disks_in_text(self, draft: Draft) -> str:
        """Names of the disks that the files of the draft show."""
        files = draft.files.filter(reading__machine__isnull=False)
        machines = files.values_list("reading__machine", flat=True)[:MAX_FILES_OF_MACHINE]
        return disk_names(row for rows in machines for row in rows)[:MAX_NAMES]

    def is_valid(self) -> bool:
        valid = [form.is_valid() for form in (self.common, *self.disks, *self.forms.values())]
        # each was asked, and each says what is wrong with it
        return all(valid)

    @property
    def has_disks(self) -> bool:
        """True when something was typed of its disks, which stays in sight."""
        return any(form.is_bound and (form.errors or form.filled) for form in self.disks)

    def agreement(self) -> Agreement:
        same = self.common.cleaned_data
        origin = {name: same[name] for name in ORIGIN}
        chosen = [self._result_choice(result) for result in self.results]
        return Agreement(chosen, same["campaign"], same["question"], origin, same["are_repeats"])

    def _result_choice(self, result: OfferedResult) -> ResultChoice:
        form = self.forms.get(result.result_key)
        own: dict[str, Any] = form.cleaned_data if form else {"take": True}
        if result.parsed.described:
            return ResultChoice(
                result.result_key, take=own["take"], workload=own.get("workload", "")
            )
        same = self.common.cleaned_data
        beside: str = (
            own.get("beside", "") if form else _nearest(result, self.measured) * result.watches
        )
        one_host = own if own.get("host") or own.get("new_host") else same
        one_topology = own if own.get("topology") or own.get("new_topology") else same
        return ResultChoice(
            key=result.result_key,
            take=own["take"],
            host=self.rows.hosts.get(one_host["host"]),
            new_host=one_host["new_host"],
            topology=self.rows.topologies.get(one_topology["topology"]),
            new_topology=one_topology["new_topology"],
            workload=own.get("workload") or same["workload"],
            outstanding=own.get("outstanding"),
            beside=_choice_key(beside) if beside else None,
            interval=own.get("interval"),
            first_counts=own.get("first_counts", False),
            log_unit=(own.get("log_unit") or same["log_unit"]) if result.needs_log_unit else "",
            disks=tuple(form.source_disks() for form in self.disks if form.filled),
        )

    def add_errors(self, refused: Refused) -> None:
        """Put what is wrong where it was typed; what is wrong of all is said once."""
        for (index, name), messages in refused.errors.items():
            form: forms.Form = self._disks_form(name) or self.common
            own = self.forms.get(self.results[index].result_key) if index is not None else None
            if own is not None and self._belongs_to_result(own, name):
                form = own
            field = name if name in form.fields else None
            shown_errors = list(form.errors.get(field or "__all__", ()))
            for text in messages:
                if text not in shown_errors:
                    form.add_error(field, text)

    def _disks_form(self, name: str) -> DisksForm | None:
        """Form of the row of disks that is meant by "disks.1"; None for another name."""
        what, _, number = name.partition(".")
        if what != "disks":
            return None
        return [form for form in self.disks if form.filled][int(number)]

    def _belongs_to_result(self, form: ResultForm, name: str) -> bool:
        """True when it was said of this result, and not left to what holds for all."""
        if name.startswith("disks."):
            return False
        if name in ("host", "topology"):
            cleaned = form.cleaned_data
            return bool(cleaned.get(name) or cleaned.get(f"new_{name}"))
        return True
