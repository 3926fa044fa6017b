"""The cost of campaigns of very many runs, layouts or hosts: pages, reports, Explore, figures and the API's verdicts.

CPU is that of this process, which asks itself without a socket: once with nothing analysed yet, then the median of five
more times. Sizes are of the page alone, as it is and compressed.
"""

from __future__ import annotations

import gzip
import statistics
import sys
import time
from typing import NamedTuple

import django

from tests.bench import options
from tests.bench.bench_api import verdict

ROUNDS = 5


class Target(NamedTuple):
    """Milliseconds of CPU: of the first request, None where there is no target, and of each after it."""

    path: str
    first_ms: float | None
    again_ms: float


PAGE, REPORT = "/campaigns/{pk}/", "/campaigns/{pk}/report/"
EXPLORE, FIGURE = "/explore/?campaign={pk}", "/campaigns/{pk}/figure.json"
VERDICTS = "/api/verdicts/?campaign={pk}"


def main() -> int:
    options.none(__doc__)
    django.setup()
    from django.core.management import call_command

    from tests.bench import lab_data
    from tests.bench.lab_sweeps import Shape, sweeps

    labs = {
        Shape(topologies=6, workloads=5): (
            Target(PAGE, None, 150),
            Target(REPORT, None, 200),
            Target(EXPLORE, None, 200),
            Target(FIGURE, None, 200),
        ),
        Shape(topologies=30): (Target(PAGE, None, 150),),
        Shape(hosts=500, depths=1): (Target(PAGE, None, 1000), Target(REPORT, None, 1000)),
        Shape(topologies=20, workloads=10, depths=10, repeats=5): (Target(VERDICTS, 2000, 2000),),
    }
    call_command("migrate", verbosity=0)
    bad = 0
    for shape, targets in labs.items():
        owner = lab_data.person(f"costs {time.time()}")
        campaign = sweeps(owner, shape)
        print(f"{shape.runs} runs: {shape}", flush=True)
        bad += sum(measure(owner, target, campaign) for target in targets)
    return int(bad > 0)


def measure(owner: object, target: Target, campaign: int) -> int:
    from django.conf import settings
    from django.test import Client

    client = Client(headers={"host": settings.ALLOWED_HOSTS[0]})
    client.force_login(owner)  # type: ignore[arg-type]
    path = target.path.format(pk=campaign)
    # Templates are compiled once, and are no cost of a page.
    client.get(path.partition("?")[0].replace(str(campaign), "0"))
    costs, body = [], b""
    for _ in range(1 + ROUNDS):
        begun = time.process_time()
        answer = client.get(path)
        costs.append((time.process_time() - begun) * 1000)
        assert answer.status_code == 200, (path, answer.status_code)
        body = answer.content
    first, again = costs[0], statistics.median(costs[1:])
    good = again < target.again_ms and (target.first_ms is None or first < target.first_ms)
    size = f"{len(body) / 1000:.0f} kB, {len(gzip.compress(body, 6)) / 1000:.0f} kB compressed"
    return verdict(
        f"{path}: {first:.0f} ms at first, then {again:.0f} (target {target.again_ms:.0f}); {size}",
        good,
    )


if __name__ == "__main__":
    sys.exit(main())
