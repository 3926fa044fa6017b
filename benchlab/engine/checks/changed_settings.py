# SPDX-License-Identifier: Apache-2.0
"""Check that a run is measured under the settings with which the layout was verified, before the run and after it.

Swept I/O schedulers are set before the run that asks for them, so they are compared with what was then in force.
"""

from __future__ import annotations

from agents.contracts import Claim
from agents.facts import settings
from agents.facts.settings import Change, Setting, Settings
from agents.facts.sysfs import ATTRIBUTES, Queues, kernel_name
from agents.plans.applied_part import scope
from benchlab.engine.checks import planning
from benchlab.engine.checks.condition import Condition
from benchlab.runs.models import Attempt, Layout
from benchlab.topologies import moments


def changes(
    layout: Layout, attempt: Attempt, condition: Condition, queues: Queues | None = None
) -> list[Change]:
    """Settings that differ from the expected ones, by the look that `condition` holds; [] if none does.

    `queues`: what was set for this run; None before that, when what it asks for is no matter yet.
    """
    if condition.health is None or condition.rebooted:
        return []
    plan, moment = planning.stored_plan(layout), moments.parse_moment(attempt.run.stage)
    part = scope(plan, moment.stage, moment.growing)
    expected = dict(settings.settings_from_facts(planning.facts_at_ready(layout), part))
    if attempt.run.scheduler:
        claims = [claim for claim in plan.claims if claim.node in part.disks]
        for setting in _queue_settings(claims):
            expected.pop(setting, None)
        expected |= _expected_queues(claims, queues or {})
    return settings.changed_settings(
        expected, settings.settings_from_health(condition.health, part), bool(condition.ails)
    )


def _queue_settings(claims: list[Claim]) -> list[Setting]:
    return [(attribute, claim.node) for claim in claims for attribute in ATTRIBUTES]


def _expected_queues(claims: list[Claim], queues: Queues) -> Settings:
    return {
        (attribute, claim.node): value
        for claim in claims
        for attribute, value in queues.get(kernel_name(claim.node), {}).items()
    }
