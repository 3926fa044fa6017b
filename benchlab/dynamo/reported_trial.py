# SPDX-License-Identifier: Apache-2.0
"""A test on a target as dynamo itself reports it, for machines that nobody reaches but dynamo. Pure."""

from __future__ import annotations

from agents.dynamo import specs
from agents.dynamo.messages import ACTIVE, LOGICAL, PHYSICAL, AccessSpec, Disk, Target
from agents.dynamo.specs import Trial
from agents.dynamo.wire import DynamoError
from agents.tools.dynamo import SLOWEST_LAYOUT, Options, access_lines, poll_s

# s more
EXTRA_SECONDS = 120.0


def build_trial(options: Options, name: str, raw: bool, sector: int, prepare: bool) -> Trial:
    """Checked as far as anybody can who sees nothing of that machine. Raises DynamoError."""
    sector = sector if sector >= 512 else 512
    if not options.size:
        raise DynamoError("options", "size: required, because dynamo does not report one")
    many = options.targets * (options.workers if options.own_targets else 1)
    if not raw and many > 1:
        raise DynamoError(
            "options",
            f"{many} targets: {name} has one file, dynamo's own; use one target and more workers",
        )
    if options.size % sector:
        raise DynamoError("options", f"size: {options.size} is not a multiple of {sector}")
    share = options.targets
    workers = tuple(
        tuple(
            _build_target(
                options,
                name,
                raw,
                sector,
                worker,
                number,
                number + worker * share * options.own_targets,
            )
            for number in range(share)
        )
        for worker in range(options.workers)
    )
    first = (workers[0], *((),) * (options.workers - 1)) if prepare else ()
    lines = access_lines(options)
    label = f"{lines[0].size} B" if len(lines) == 1 else f"{len(lines)} lines"
    trial = Trial(
        AccessSpec(label, lines),
        workers,
        first,
        float(options.ramp_s),
        float(options.runtime_s),
        poll_s(options),
    )
    specs.check_trial(trial, sector if raw else 512)
    return trial


def longest_preparation(options: Options) -> float:
    """Seconds; dynamo never ends one on a full file system, and does not say how full it is."""
    return options.size / SLOWEST_LAYOUT + EXTRA_SECONDS


def _build_target(
    options: Options, name: str, raw: bool, sector: int, worker: int, number: int, slice_: int
) -> Target:
    sectors = options.size // sector
    disk = Disk(sector_size=sector, maximum_size=sectors, starting_sector=slice_ * sectors)
    seed = specs.target_seed(options.seed, worker, number)
    kind = (PHYSICAL if raw else LOGICAL) | ACTIVE
    return Target(name, kind, disk, options.outstanding_ios, options.data_pattern, 1, seed)
