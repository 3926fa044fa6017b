"""Topologies that are one layout with other settings, and the names of both."""

from __future__ import annotations

from typing import Any

import pytest

from benchlab.verdicts.matrix import AS_IT_IS, split_tuning

Told = dict[int, tuple[str, list[dict[str, Any]], list[dict[str, Any]]]]
RAW: dict[str, Any] = {"kind": "raw", "options": {}, "devices": []}
LVM: dict[str, Any] = {"kind": "lvm", "options": {"stripes": 4}}


def tuning(**options):
    return {"kind": "tuning", "options": options}


def test_schedulers_on_two_layouts():
    told: Told = {
        number: (f"{name}, {scheduler}", [below, tuning(scheduler=scheduler, nr_requests=-1)], [])
        for number, (name, below, scheduler) in enumerate(
            (name, below, scheduler)
            for name, below in (("disk", RAW), ("stripe", LVM))
            for scheduler in ("none", "bfq")
        )
    }
    assert split_tuning(told) == {
        0: ("disk", "scheduler none"),
        1: ("disk", "scheduler bfq"),
        2: ("stripe", "scheduler none"),
        3: ("stripe", "scheduler bfq"),
    }


def test_the_plain_one_names_the_layout():
    told: Told = {
        1: ("as it comes", [RAW], []),
        2: ("calm", [tuning(sysctls=["vm.dirty_ratio=5"], scheduler=""), RAW], []),
    }
    assert split_tuning(told) == {
        1: ("as it comes", AS_IT_IS),
        2: ("as it comes", "sysctls vm.dirty_ratio=5"),
    }


def test_names_that_have_nothing_in_common_are_all_told():
    told: Told = {1: ("a", [RAW, tuning(nomerges=0)], []), 2: ("b", [RAW, tuning(nomerges=2)], [])}
    assert split_tuning(told) == {1: ("a / b", "nomerges 0"), 2: ("a / b", "nomerges 2")}


@pytest.mark.parametrize(
    "told",
    [
        {1: ("a", [RAW], []), 2: ("b", [LVM], [])},
        {1: ("a", [RAW], []), 2: ("b", [RAW], [])},  # equals, built twice on purpose
        {1: ("a", [RAW], []), 2: ("b", [RAW, tuning(nr_requests=64)], [{"layer": 1}])},
        {1: ("a", [RAW], [])},
    ],
)
def test_others_stay_as_they_are(told):
    assert split_tuning(told) == {}
