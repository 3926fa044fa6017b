# SPDX-License-Identifier: Apache-2.0
"""Applied part of a plan: only disks that a command of it has touched may be taken down. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import takewhile

from agents.contracts import Claim, claims_of
from agents.plans.stack import BELOW, Placed, StackPlan


def reached(plan: StackPlan, touched: Collection[str]) -> StackPlan:
    """The plan without the layers and stages that never began. `touched`: identities of disks.

    A layer's first command claims all of its own disks, and a stage's all of its new ones: where one of them was not
    touched, none was that matters.
    """

    def begun(claims: Sequence[Claim]) -> bool:
        return all(claim.identity in touched for claim in claims)

    layers = tuple(takewhile(lambda layer: begun(own_claims(layer)), plan.layers))
    numbers = range(1, len(plan.stages) + 1 if layers == plan.layers else 1)
    last = len(list(takewhile(lambda number: begun(new_claims(plan, number)), numbers)))
    return replace(plan, layers=layers, stages=plan.stages[:last])


def own_claims(layer: Placed) -> tuple[Claim, ...]:
    """The disks that no layer below it has."""
    devices = {use: claims for use, claims in layer.target.devices.items() if use != BELOW}
    return claims_of(replace(layer.target, devices=devices))


def new_claims(plan: StackPlan, stage: int) -> tuple[Claim, ...]:
    """The disks that the layout takes in with `stage`, from 1."""
    before, after = (
        claims_of(plan.layers_after(number)[-1].gives) for number in (stage - 1, stage)
    )
    return tuple(claim for claim in after if claim not in before)
