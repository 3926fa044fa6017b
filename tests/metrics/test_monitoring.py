"""Dashboard, alert rules and configuration of Prometheus: they name what /metrics prints, and Prometheus takes them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client
from prometheus_client import parser
from prometheus_client.metrics_core import Metric as Family

from benchlab.metrics.table import METRICS, PREFIX
from tests import stack

PLACE = Path(__file__).parents[2] / "docs" / "monitoring"
TOKEN = "a-token-of-24-letters-or-more"
BOARD: dict[str, Any] = json.loads((PLACE / "grafana.json").read_text())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
RULES = [
    rule
    for group in yaml.safe_load((PLACE / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
NAME = re.compile(rf"({PREFIX}\w+)(?:\{{([^}}]*)\}})?")
SAID = re.compile(r'(\w+)="([^"]*)"')
# Of what was counted: nothing was, in a test.
COUNTED = {"work"}
# Known once it has happened.
LATER = {"benchlab_backup_timestamp_seconds"}


def expressions() -> Iterator[str]:
    for panel in PANELS:
        yield from (target["expr"] for target in panel["targets"])
    yield from (rule["expr"] for rule in RULES)


@pytest.fixture
def text(db, settings) -> str:
    """What /metrics prints."""
    settings.BENCHLAB_METRICS_TOKEN = TOKEN
    return Client().get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).text


def sample_names(family: Family) -> set[str]:
    return {
        "counter": {f"{family.name}_total"},
        "histogram": {f"{family.name}{end}" for end in ("_bucket", "_sum", "_count")},
    }.get(family.type, {family.name})


def test_what_they_ask_for_is_printed(text):
    families = list(parser.text_string_to_metric_families(text))
    printed = set().union(*map(sample_names, families))
    samples = [sample for family in families for sample in family.samples]
    asked = [(name, labels) for one in expressions() for name, labels in NAME.findall(one)]
    assert {name for name, _ in asked} <= printed
    for name, labels in asked:
        for label, value in SAID.findall(labels):
            if label == "job" or label in COUNTED:
                continue
            assert any(one.name == name and one.labels.get(label) == value for one in samples), (
                name,
                label,
                value,
            )


def test_every_metric_is_on_the_dashboard():
    shown = " ".join(target["expr"] for panel in PANELS for target in panel["targets"])
    assert [one.name for one in METRICS if PREFIX + one.name not in shown] == []


@pytest.mark.parametrize("kind", ["counter", "histogram", "gauge"])
def test_the_operating_page_has_every_metric(kind):
    text = (PLACE.parent / "operating.md").read_text()
    items = text.partition(f"\n{kind.capitalize()}s:\n\n")[2].partition("\n\n")[0]
    rows = re.findall(rf"^- `{PREFIX}(\w+)(?:{{(.*)}})?`: (.*)$", items, re.MULTILINE)
    metrics = [metric for metric in METRICS if metric.kind == kind]
    assert rows == [
        (metric.name, ",".join(metric.labels), metric.description) for metric in metrics
    ]


def test_panels_have_units_and_places_of_their_own():
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    assert all(panel["fieldConfig"]["defaults"]["unit"] for panel in PANELS)
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells
    seconds = [p for p in PANELS if any("_seconds" in t["expr"] for t in p["targets"])]
    assert {panel["fieldConfig"]["defaults"]["unit"] for panel in seconds} == {"s"}


@pytest.fixture
def promtool() -> str:
    return shutil.which("promtool") or pytest.skip("promtool is not installed")


def test_promtool_takes_the_rules_and_what_is_printed(promtool, text):
    def run(*words: str, given: str = "") -> None:
        argv = [promtool, "check", *words]
        ran = subprocess.run(argv, input=given, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0 and not ran.stderr, ran

    run("rules", str(PLACE / "alerts.yml"))
    run("config", "--syntax-only", str(PLACE / "prometheus.yml"))
    run("metrics", given=text)


@pytest.mark.night
@pytest.mark.django_db(transaction=True)
def test_a_real_prometheus_reads_it_and_answers_each_panel(tmp_path):
    """With the configuration of the documents, but for the server's address and the token's file."""
    program = shutil.which("prometheus") or pytest.skip("Prometheus is not installed")
    redis = stack.redis_url(6)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    shutil.copy(PLACE / "alerts.yml", tmp_path)
    config = (PLACE / "prometheus.yml").read_text()
    port = stack._free_port()
    with (
        stack.worker(tmp_path, redis),
        stack.web(tmp_path, redis, BENCHLAB_METRICS_TOKEN=TOKEN) as url,
    ):
        for old, new in {
            "127.0.0.1:8000": url.removeprefix("http://"),
            "/etc/prometheus/benchlab-token": str(tmp_path / "token"),
            "scrape_interval: 15s": "scrape_interval: 1s",
        }.items():
            assert old in config
            config = config.replace(old, new)
        (tmp_path / "prometheus.yml").write_text(config)
        argv = [program, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
                f"--web.listen-address=127.0.0.1:{port}"]  # fmt: skip
        log = tmp_path / "prometheus.log"
        with stack.process(argv, log, stack.environment(redis)):
            address = f"http://127.0.0.1:{port}/api/v1"
            stack.wait_for(
                lambda: bool(asked(address, 'benchlab_workers{job="benchlab"} > 0')), log, 90
            )
            urllib.request.urlopen(f"{url}/login/", timeout=30).read()
            stack.wait_for(
                lambda: bool(asked(address, "rate(benchlab_http_requests_total[30s])")), log, 60
            )
            for panel in PANELS:
                for target in panel["targets"]:
                    query = (
                        target["expr"]
                        .replace("$job", "benchlab")
                        .replace("$__rate_interval", "30s")
                    )
                    found = asked(address, query)
                    quiet = any(word in query for word in ("rate(", "> 0", "== 0", *LATER))
                    assert found or quiet, query
            rules = ask(address, "rules")["groups"]
            assert [
                rule["health"]
                for group in rules
                for rule in group["rules"]
                if rule["health"] == "err"
            ] == []


def asked(address: str, query: str) -> list[Any]:
    """Result of a query; [] while nobody answers."""
    found: list[Any] = ask(address, "query?" + urllib.parse.urlencode({"query": query})).get(
        "result", []
    )
    return found


def ask(address: str, what: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{address}/{what}", timeout=10) as answer:
            said = json.load(answer)
    except OSError as error:
        # It answers 503 while it starts
        assert getattr(error, "code", 503) == 503, error
        return {}
    assert said["status"] == "success", said
    data: dict[str, Any] = said["data"]
    return data
