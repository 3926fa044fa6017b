# SPDX-License-Identifier: Apache-2.0
"""BenchLab in a notebook: one file, the standard library, and pandas if it is there. May be copied alone.

lab = Lab("https://lab.example", "blab_…")
frame = lab.results(campaign="Stripe sizes", metric=["iops", "lat.mean"], outstanding__gte=4)
table = lab.download(campaign=7)  # Parquet, for polars and DuckDB
seen = lab.start(7)              # plans, shows what would be destroyed, asks
lab.wait(7)
"""

from __future__ import annotations

import json
import random
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

TRIES = 6
TIMEOUT_S = 120.0
# for a while: what was asked is asked again
AGAIN = (429, 502, 503, 504)
POLL_S = 5.0
# a worker reads the facts of every host before it plans
PLAN_S, PLAN_POLL_S = 600.0, 1.0
OVER = ("done", "cancelled")
# characters
BAR = 30


class LabError(Exception):
    """Refusal of the lab, or word that it could not be reached. `status` 0: no answer. `errors`: parameter -> texts."""

    def __init__(self, text: str, status: int = 0, errors: Mapping[str, Any] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.errors = errors or {}


class Stays(HTTPRedirectHandler):
    """urllib would hand the token on to wherever it is sent."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


OPENER = build_opener(Stays)


class Lab:
    """A lab at `url`, as the person (and within the limits) of `token`."""

    def __init__(self, url: str, token: str, *, timeout: float = TIMEOUT_S) -> None:
        self.url = url.rstrip("/")
        self.timeout = timeout
        self._token = token
        self._sleep: Callable[[float], None] = time.sleep

    def __repr__(self) -> str:
        return f"Lab({self.url!r})"

    def results(self, **filters: Any) -> Any:
        """The long table of measurements; filters as /api/results/ has them, a list for any of its values.

        `_` cannot stand for the dot of param.iodepth and metric.iops: results(**{"param.iodepth": 4}).
        """
        return self.table("/api/results/", filters)

    def series(self, **filters: Any) -> Any:
        """Every value of every series, a row each: name an attempt or a campaign."""
        return self.table("/api/series-table/", filters)

    def table(self, path: str, filters: Mapping[str, Any]) -> Any:
        """A pandas DataFrame; without pandas a list of dictionaries."""
        answer = self.get(path, {**filters, "format": "json"})
        data: dict[str, list[Any]] = answer["data"]
        try:
            import pandas
        except ImportError:
            return [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)]
        frame = pandas.DataFrame(data)
        for column in answer["columns"]:
            if column["kind"] == "time":
                frame[column["name"]] = pandas.to_datetime(frame[column["name"]], utc=True)
        frame.attrs["units"] = {c["name"]: c["unit"] for c in answer["columns"] if c["unit"]}
        return frame

    def download(self, path: str = "/api/results/", form: str = "parquet", **filters: Any) -> bytes:
        """A table as a file: csv, parquet, arrow or json. For polars, and by a frame of its for DuckDB:

        frame = polars.read_parquet(lab.download(metric="iops"))
        duckdb.sql("SELECT topology, median(value) FROM frame GROUP BY topology")
        """
        query = urlencode(_plain({**filters, "format": form}), doseq=True)
        return self._send("GET", f"{path}?{query}")

    def campaigns(self, **filters: Any) -> list[dict[str, Any]]:
        """All that may be seen, newest first; library=True: also the reference library's."""
        return list(self.every("/api/campaigns/", **filters))

    def every(self, path: str, **filters: Any) -> Iterator[dict[str, Any]]:
        """Every row of a list, page by page."""
        page = self.get(path, {"page_size": 200, **filters, "cursor": ""})
        yield from page["results"]
        # whatever name a proxy gave the lab in there, it is asked by ours
        while page["next"]:
            page = json.loads(self._send("GET", f"{path}?{urlsplit(page['next']).query}"))
            yield from page["results"]

    def diagnose(self, text: str) -> dict[str, Any]:
        """The most likely meaning of a tool's output, and what to run next: "shown", "folded", "checked".

        for row in lab.diagnose(open("fio.txt").read())["shown"]: print(row["verdict"], row["claim"])
        """
        answer: dict[str, Any] = self.post("/api/diagnose/", {"text": text})
        return answer

    def plan(self, campaign: int) -> dict[str, str]:
        """Plan every layout that is not started, print what each would destroy; layout -> fingerprint.

        Waits for the plans, PLAN_S seconds at most. Raises LabError for one that did not come or cannot be built.
        """
        self.post(f"/api/campaigns/{campaign}/plan/")
        layouts = self._planned(campaign)
        if wrong := [layout for layout in layouts if layout["plan_error"]]:
            message = "; ".join(f"{layout['name']}: {layout['plan_error']}" for layout in wrong)
            raise LabError(f"Campaign {campaign} cannot be started. {message}")
        for layout in layouts:
            visit = layout.get("visit", 1)
            again = f"  visit {visit}" if visit > 1 else ""
            print(f"{layout['name']}{again}  fingerprint {layout['plan_fingerprint']}")
            for identity, node in sorted(
                _claimed(layout["plan"]).items(), key=lambda claim: claim[1]
            ):
                print(f"    destroys {node} {identity}")
        return {str(layout["id"]): layout["plan_fingerprint"] for layout in layouts}

    def _planned(self, campaign: int) -> list[dict[str, Any]]:
        """The drafts, once each has its plan or says why it has none: the lab only queues what was asked."""
        until = time.monotonic() + PLAN_S
        while True:
            layouts = list(self.every("/api/layouts/", campaign=campaign, phase="draft"))
            late = [
                layout["name"]
                for layout in layouts
                if not (layout["plan_error"] or layout["plan_fingerprint"])
            ]
            if not late:
                return layouts
            if time.monotonic() > until:
                raise LabError(
                    f"Campaign {campaign} cannot be started: after {PLAN_S:.0f} s there is no plan of "
                    f"{', '.join(late)}. Does a worker run, and do the hosts answer?"
                )
            self._sleep(PLAN_POLL_S)

    def start(
        self,
        campaign: int,
        confirmed: Mapping[str, str] | Callable[[dict[str, str]], bool] | None = None,
    ) -> dict[str, Any]:
        """Plan, show, and carry out what was agreed to: it destroys what is on the disks.

        `confirmed`: the fingerprints that were looked at, or what asks; without it a person is asked at the keyboard.
        """
        fingerprints = self.plan(campaign)
        if isinstance(confirmed, Mapping):
            if dict(confirmed) != fingerprints:
                raise LabError(
                    "The plans are no longer those that were confirmed; look again.", 409
                )
        elif not (_confirm if confirmed is None else confirmed)(fingerprints):
            raise LabError("Not started: the plans were not confirmed.")
        answer: dict[str, Any] = self.post(
            f"/api/campaigns/{campaign}/apply/", {"confirmed": fingerprints}
        )
        return answer

    def wait(self, campaign: int, *, every: float = POLL_S, quiet: bool = False) -> dict[str, Any]:
        """Until the campaign is over, with a bar; returns it. Raises LabError for one that nobody started."""
        while True:
            progress: dict[str, Any] = self.get(f"/api/campaigns/{campaign}/")
            if progress["state"] == "draft":
                raise LabError(
                    f"Campaign {campaign} was not started: its plans wait to be confirmed."
                )
            if not quiet:
                print(f"\r{bar(progress)}", end="", file=sys.stderr, flush=True)
            if progress["state"] in OVER:
                if not quiet:
                    print(file=sys.stderr)
                return progress
            self._sleep(every)

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        parameters = urlencode(_plain(query or {}), doseq=True)
        return json.loads(self._send("GET", f"{path}?{parameters}" if parameters else path))

    def post(self, path: str, body: Any = None) -> Any:
        """Done once, however often the network makes us send it."""
        answer = self._send("POST", path, body, {"Idempotency-Key": uuid.uuid4().hex})
        return json.loads(answer or b"null")

    def _send(
        self, method: str, path: str, body: Any = None, more: Mapping[str, str] | None = None
    ) -> bytes:
        headers = {
            "Authorization": f"Token {self._token}",
            "Accept": "application/json",
            **(more or {}),
        }
        data = None
        if method == "POST":
            data, headers["Content-Type"] = json.dumps(body or {}).encode(), "application/json"
        for attempt in range(1, TRIES + 1):
            try:
                request = Request(self.url + path, data, headers, method=method)  # noqa: S310  # the address is the caller's own
                with OPENER.open(request, timeout=self.timeout) as answer:
                    content: bytes = answer.read()
                    return content
            except HTTPError as error:
                with error:
                    why = problem_from_response(error)
                    wait = error.headers.get("Retry-After", "")
                if why.status not in AGAIN or attempt == TRIES:
                    raise why from None
                self._sleep(float(wait) if wait.isdecimal() else _patience(attempt))
            except (URLError, ConnectionError, TimeoutError) as error:
                if attempt == TRIES:
                    reason = getattr(error, "reason", error)
                    raise LabError(f"{self.url} does not answer: {reason}") from None
                self._sleep(_patience(attempt))
        raise AssertionError("the last try returns or raises")


def problem_from_response(error: HTTPError) -> LabError:
    """The problem (RFC 9457) in words."""
    try:
        problem = json.loads(error.read())
        return LabError(
            f"{error.code} {problem['title']}: {problem['detail']}",
            error.code,
            problem.get("errors"),
        )
    except (ValueError, KeyError, TypeError):
        where = error.headers.get("Location", "")
        more = f"; it says to go to {where}: give that address" if where else ""
        return LabError(f"{error.code} {error.reason}: {error.url}{more}", error.code)


def bar(campaign: Mapping[str, Any]) -> str:
    """[#####-----] 5 of 10 runs, 2 failed, some 3 min left"""
    progress = campaign["progress"]
    counts, runs = progress["counts"], progress["runs"]
    over = sum(n for state, n in counts.items() if state not in ("queued", "running"))
    filled = BAR * over // runs if runs else 0
    bad = sum(n for state, n in counts.items() if state in ("failed", "errored", "interrupted"))
    eta = progress["eta_s"]
    parts = [
        f"[{'#' * filled}{'-' * (BAR - filled)}] {over} of {runs} runs",
        f"{bad} failed" if bad else "",
        f"some {eta / 60:.0f} min left" if eta else "",
        campaign["state"],
    ]
    return ", ".join(filter(None, parts)).ljust(100)


def _plain(query: Mapping[str, Any]) -> dict[str, Any]:
    """True as the API has it; a list stays one: any of these."""
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in query.items()
        if value is not None
    }


def _claimed(plan: Any) -> dict[str, str]:
    """identity -> node of every disk that a plan claims, however deep: it keeps them with its layers."""
    if isinstance(plan, Mapping):
        own = (
            {str(plan["identity"]): str(plan["node"])}
            if {"identity", "node"} <= plan.keys()
            else {}
        )
        return own | _claimed(list(plan.values()))
    nodes: dict[str, str] = {}
    for step in plan if isinstance(plan, list) else ():
        nodes |= _claimed(step)
    return nodes


def _confirm(shown_nodes: dict[str, str]) -> bool:
    return (
        input(f"Destroy what is on these disks, for {len(shown_nodes)} layouts? Type yes: ")
        == "yes"
    )


def _patience(attempt: int) -> float:
    """1, 2, 4, … seconds, a little apart from others'."""
    return float(2 ** (attempt - 1)) * random.uniform(0.8, 1.2)  # noqa: S311  # only spreads retries
