"""The files that forges read: each runs what `.ci/run` runs, and names programs that exist."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from benchlab.installation import ROOT
from benchlab.up.linting import checks

FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def load(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def local_checks() -> set[str]:
    """The commands of manage.py that must be green."""
    loop = re.search(r"^for check in (.*); do$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    return set(re.findall(r'"([^"]+)"', loop[1]))


def forge_checks(name: str) -> list[str]:
    """The commands of manage.py in a forge's file, without what handles their exit code."""
    return re.findall(r"python3 manage\.py ([a-z -]*[a-z])", (ROOT / name).read_text())


@pytest.mark.parametrize("name", [".github/workflows/ci.yml", ".gitlab-ci.yml"])
def test_forges_run_what_the_ci_script_runs(name):
    assert load(name)
    assert len(local_checks()) == 3
    assert sorted(forge_checks(name)) == sorted(local_checks())


def test_jobs_of_the_workflow_have_limits_and_may_only_read():
    workflow = load(".github/workflows/ci.yml")
    assert workflow["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] for job in workflow["jobs"].values())
    assert workflow["jobs"]["test"]["env"] == {"BENCHLAB_RIG": "required"}


def test_hooks_run_the_linters_of_the_repository():
    (repository,) = load(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    entries = {hook["id"]: hook["entry"].split() for hook in repository["hooks"]}
    assert entries.pop("lint") == ["python3", "manage.py", "lint"]
    programs = {argv[0] for _, argv in checks()}
    assert {argv[0] for argv in entries.values()} == {".venv/bin/ruff", ".venv/bin/djade"}
    assert {argv[0].removeprefix(".venv/bin/") for argv in entries.values()} <= programs


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_issue_forms_are_complete(path):
    form = yaml.safe_load(path.read_text())
    if path.name == "config.yml":
        assert form == {"blank_issues_enabled": True}
        return
    assert form["name"] and form["description"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)


def test_the_readme_leads_to_the_rules_of_the_project():
    readme = (ROOT / "README.md").read_text()
    assert all(f"({name})" in readme for name in ("SECURITY.md", "CODE_OF_CONDUCT.md"))
