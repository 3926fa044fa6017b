"""The API describes what can be asked for: every driver and preset, and what it says of an option is what is taken."""

from __future__ import annotations

import dataclasses

import pytest

from agents import options
from agents.drivers import registry


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("layers", registry.all_layers),
        ("tools", registry.all_tools),
        ("samplers", registry.all_samplers),
    ],
)
def test_every_driver_is_told(api, path, known):
    rows = api.get(f"/api/{path}/").json()["results"]
    assert {row["kind"]: row["label"] for row in rows} == {k: d.LABEL for k, d in known().items()}
    assert all(row["says"] for row in rows)


def test_every_option_has_its_schema(api):
    for path, known in (("layers", registry.all_layers()), ("tools", registry.all_tools())):
        for row in api.get(f"/api/{path}/").json()["results"]:
            fields = {one.name for one in dataclasses.fields(known[row["kind"]].Options)}
            assert set(row["options"]["properties"]) == fields
            assert all(one["description"] for one in row["options"]["properties"].values()), row[
                "kind"
            ]


def test_the_defaults_that_are_told_are_taken(api):
    for row in api.get("/api/tools/").json()["results"]:
        told = row["options"]
        given = {n: one["default"] for n, one in told["properties"].items() if "default" in one}
        if not told["required"]:
            built = registry.all_tools()[row["kind"]].Options
            assert options.dump(options.build_options(built, given)) == options.dump(built()), row[
                "kind"
            ]


def test_a_layer_that_grows_says_how(api):
    grow = {row["kind"]: row["grow"] for row in api.get("/api/layers/").json()["results"]}
    assert grow["md"]["type"] == "object" and grow["raw"] is None


def test_a_preset_is_posted_as_it_is_told(api):
    told = api.get("/api/presets/").json()
    assert set(told) == {"topologies", "workloads", "campaigns"}
    one = next(row for row in told["topologies"] if row["stages"])
    body = {name: one[name] for name in ("name", "stack", "stages")}
    assert api.post("/api/topologies/", body).status_code == 201
    load = told["workloads"][0]
    body = {name: load[name] for name in ("name", "tool", "options", "sweep")}
    assert api.post("/api/workloads/", body).status_code == 201
    slugs = {row["slug"] for row in (*told["topologies"], *told["workloads"])}
    assert all({*row["topologies"], *row["workloads"]} <= slugs for row in told["campaigns"])
