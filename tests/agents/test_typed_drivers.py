"""mypy sees every driver: its own Options, and the signatures of its Protocols."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agents.layers import raw
from tests.agents import typed_drivers

ROOT = Path(__file__).parents[2]
HELD = "from agents.drivers.protocols import Layer\nimport broken\nheld: Layer[broken.Options] = broken\n"
BROKEN = {
    "a misspelt option": (
        "if options.discard:", "if options.discards:", '"Options" has no attribute "discards"'
    ),
    "a wrong signature": (
        "def teardown(options: Options, target: Target, facts: HostFacts)",
        "def teardown(options: Options, target: Target, facts: HostFacts, quickly: bool)",
        "def teardown(options: Options, target: Target, facts: HostFacts, quickly: bool)",
    ),
    "another's options": (
        "def required_programs(options: Options)",
        "def required_programs(options: bcache.Options)",
        "def required_programs(options: Options)",
    ),
}  # fmt: skip


def test_the_list_for_mypy_is_the_scan(accepted):
    """A driver that mypy has not seen is found by a disk."""
    accepted(typed_drivers.FILE, typed_drivers.text())


def test_mypy_refuses_a_broken_driver(tmp_path):
    """All in one run: reading what they import takes the time."""
    pytest.importorskip("mypy")
    source = Path(raw.__file__).read_text()
    right = source.replace(
        "import annotations\n", "import annotations\nfrom agents.layers import bcache\n"
    )
    _driver(tmp_path, "right", right)
    for what, (old, new, _) in BROKEN.items():
        assert old in right
        _driver(tmp_path, _name(what), right.replace(old, new))
    said = mypy(tmp_path).splitlines()
    assert not [line for line in said if line.startswith("right")]
    for what, (_, _, expected) in BROKEN.items():
        found = "\n".join(line for line in said if line.startswith(_name(what)))
        assert expected in found, (what, said)


def _name(what: str) -> str:
    return "".join(letter for letter in what if letter.isalpha())


def _driver(folder: Path, name: str, source: str) -> None:
    (folder / f"{name}.py").write_text(source)
    (folder / f"{name}_held.py").write_text(HELD.replace("broken", name))


def mypy(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--implicit-reexport", "--config-file=",
         f"--cache-dir={folder}/cache", "."],
        cwd=folder, env={"MYPYPATH": str(ROOT), "PATH": ""}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return done.stdout
