"""A campaign whose layouts are measured as a test says, and what tests read of its answer."""

from __future__ import annotations

import random
import re

from tests.charts import made

SEVEN = (1, 2, 4, 8, 16, 32, 64)


def texts(page) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page.content.decode()))


class Bench:
    """A campaign on one host whose layouts are measured as a test says."""

    def __init__(self, team):
        self.team = team
        self.host = made.host(team)
        self.load = made.workload(team)
        self.campaign = made.campaign(team, "Cache or stripe")
        self.dice = random.Random(4)
        self.position = 0

    def build(self, name):
        layout = made.done_layout(self.campaign, self.host, made.topology(self.team, name))
        layout.position = self.position
        layout.save()
        self.position += 1
        return layout

    def measure(
        self, layout, top, repeats=(1, 2, 3), depths=(1, 8, 16), noise=0.01, load=None, scheduler=""
    ):
        points = [
            made.Point(
                depth,
                repeat,
                top * (depth or 8) / ((depth or 8) + 8) * self.dice.gauss(1, noise),
                scheduler,
            )
            for repeat in repeats
            for depth in depths
        ]
        return made.finish_all(self.campaign, layout, load or self.load, points)

    def answer(self, api, **query):
        [found] = self.answers(api, **query)
        return found

    def answers(self, api, **query):
        told = api.get("/api/verdicts/", {"campaign": self.campaign.pk, **query})
        assert told.status_code == 200, told.content
        return told.json()["results"]


def by_name(answer):
    return {line["name"]: line for line in answer["lines"]}


def unlike_at_one_depth(bench, factor):
    """Two schedulers of one build, equal but at depth 1."""
    layout = bench.build("stripe")
    bench.measure(layout, 1000, depths=SEVEN, noise=0.001, scheduler="mq-deadline")
    bench.measure(layout, 1000 * factor, depths=SEVEN[:1], noise=0.001, scheduler="none")
    bench.measure(layout, 1000, depths=SEVEN[1:], noise=0.001, scheduler="none")
