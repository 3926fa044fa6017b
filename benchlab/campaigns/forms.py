# SPDX-License-Identifier: Apache-2.0
"""Forms of workloads and campaigns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from agents.plans import before_runs
from benchlab.campaigns import estimates, matrix
from benchlab.campaigns.models import Campaign, Workload
from benchlab.campaigns.services import Selection
from benchlab.hosts.models import Host
from benchlab.topologies.models import Topology

MAX_REPEATS = 100
MULTIPLE_FIELDS = ("hosts", "topologies", "workloads")
RUNNABLE_ROWS: dict[str, dict[str, Any]] = {
    "hosts": {
        "access__in": [access for access in Host.Access if access is not Host.Access.DESCRIBED]
    },
    "workloads": {"imported": False},
}
# Imported with results, as a name: nobody said what its layers are.
EXCLUDED_ROWS: dict[str, dict[str, Any]] = {"topologies": {"stack": []}}


class WorkloadForm(forms.Form):
    name = forms.CharField(max_length=100)


class ManyField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]
    widget = forms.CheckboxSelectMultiple


class CampaignForm(forms.Form):
    """The whole wizard: a question, and what is multiplied."""

    name = forms.CharField(max_length=200)
    question = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="What do you want to know? It heads the campaign and its report.",
    )
    hosts = ManyField(queryset=Host.objects.none())
    topologies = ManyField(queryset=Topology.objects.none())
    workloads = ManyField(queryset=Workload.objects.none())
    repeats = forms.IntegerField(min_value=1, max_value=MAX_REPEATS, initial=3)
    order = forms.ChoiceField(
        choices=[
            (estimates.RECOMMENDED, "As recommended for what is chosen"),
            *Campaign.Order.choices,
        ],
        initial=estimates.RECOMMENDED,
    )
    visits = forms.IntegerField(
        label="Visits (ABBA)",
        required=False,
        min_value=matrix.MIN_ABBA_VISITS,
        max_value=MAX_REPEATS,
        initial=matrix.MIN_ABBA_VISITS,
        help_text="How often each layout is built in the order ABBA. Its repeats are divided over the visits.",
    )
    schedulers = forms.MultipleChoiceField(
        label="I/O schedulers",
        required=False,
        choices=[(name, name) for name in before_runs.LINUX_SCHEDULERS],
        widget=forms.CheckboxSelectMultiple,
        help_text="Each point is measured with each of them, in the same blocks of one build: set on the layout's "
        "disks before each run, and put back afterwards. None chosen: they stay as the host has them. "
        "cfq, noop and deadline are of kernels before 5.0.",
    )
    seed = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=2**63 - 1,
        help_text="Leave it empty for a random one. The same seed gives the same order.",
    )

    def __init__(
        self,
        user: AbstractBaseUser | AnonymousUser,
        data: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data, **kwargs)
        for name, model in (("hosts", Host), ("topologies", Topology), ("workloads", Workload)):
            field = self.fields[name]
            assert isinstance(field, ManyField)
            field.queryset = (
                model.objects.for_user(user)
                .current()
                .filter(**RUNNABLE_ROWS.get(name, {}))
                .exclude(**EXCLUDED_ROWS.get(name, {}))
            )

    def selection(self) -> Selection | None:
        """Rows to estimate, or None while something of them is missing or wrong."""
        if not all(self.cleaned_data.get(name) for name in (*MULTIPLE_FIELDS, "repeats", "order")):
            return None
        hosts, topologies, workloads = (list(self.cleaned_data[name]) for name in MULTIPLE_FIELDS)
        schedulers = self.cleaned_data.get("schedulers", [])
        return Selection(hosts, topologies, workloads, self.cleaned_data["repeats"], schedulers)

    def campaign_arguments(self) -> dict[str, Any]:
        """Arguments of `create_campaign`, of a form that is valid, the recommended order put in.

        Raises ValidationError as that does.
        """
        many = {name: list(self.cleaned_data[name]) for name in MULTIPLE_FIELDS}
        chosen = {**self.cleaned_data, **many}
        selection = self.selection()
        if chosen["order"] == estimates.RECOMMENDED and selection is not None:
            chosen["order"] = estimates.advise_order(selection).order
        if chosen["order"] != matrix.ABBA:
            chosen["visits"] = None
        return chosen
