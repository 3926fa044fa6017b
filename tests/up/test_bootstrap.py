"""The stamp, and that nothing outside the standard library is needed before the environment is there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchlab.up import bootstrap
from benchlab.up.trouble import Trouble


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "requirements.lock").write_text("django==5.2.19\n")
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def finished(root: Path, everything: bool) -> Path:
    """An environment whose stamp says that it is done."""
    venv = root / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").touch()
    stamp = bootstrap.wanted_stamp(root, everything)
    (venv / bootstrap.STAMP).write_text(json.dumps(stamp))
    return venv


def test_a_finished_environment_is_left_alone(root, monkeypatch):
    finished(root, everything=False)
    monkeypatch.setattr(bootstrap, "build", lambda *_: pytest.fail("built again"))
    bootstrap.ensure(root, everything=False)


@pytest.mark.parametrize(
    ("had", "wanted", "enough"),
    [(False, False, True), (True, False, True), (True, True, True), (False, True, False)],
)
def test_the_larger_set_serves_for_the_smaller(root, had, wanted, enough):
    venv = finished(root, everything=had)
    assert bootstrap.satisfied(venv, bootstrap.wanted_stamp(root, wanted)) is enough


def test_a_changed_lock_is_installed_with_the_set_that_was_there(root, monkeypatch):
    venv = finished(root, everything=True)
    (root / "requirements.lock").write_text("django==5.2.20\n")
    built = []

    def build(root: Path, venv: Path, wanted: dict[str, str], wheels: Path | None) -> None:
        built.append(wanted["set"])
        (venv / bootstrap.BEGUN).touch()

    monkeypatch.setattr(bootstrap, "build", build)
    bootstrap.ensure(root, everything=False)
    assert built == ["all"]
    assert not (venv / bootstrap.BEGUN).exists()
    assert bootstrap.satisfied(venv, bootstrap.wanted_stamp(root, True))


def test_an_interrupted_set_up_is_made_anew(root):
    venv = finished(root, everything=False)
    (venv / bootstrap.BEGUN).touch()
    assert bootstrap.must_be_made(venv, bootstrap.wanted_stamp(root, False))


def test_a_damaged_stamp_counts_as_none(root):
    venv = finished(root, everything=False)
    (venv / bootstrap.STAMP).write_text("[")
    assert bootstrap.read_stamp(venv) == {}


def test_a_failed_step_shows_what_it_printed(root):
    argv = [sys.executable, "-c", "print('the disk is full'); raise SystemExit(3)"]
    with pytest.raises(Trouble, match=r"(?s)exit 3.*the disk is full"):
        bootstrap.call(argv, root)


def test_without_ensurepip_and_rights_one_line_says_what_to_type(monkeypatch):
    monkeypatch.setattr(bootstrap, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(
        Trouble, match=r"apt-get install -y --no-install-recommends python3\S*-venv"
    ):
        bootstrap.require_ensurepip()


def test_it_imports_the_standard_library_only():
    code = (
        "import sys, benchlab.up.bootstrap;"
        "bad = {m.split('.')[0] for m in sys.modules} - set(sys.stdlib_module_names);"
        "print(sorted(bad - {'benchlab', '__main__'}))"
    )
    # -S: no site-packages at all, as with a bare python3.
    argv = [sys.executable, "-S", "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=bootstrap.ROOT)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
