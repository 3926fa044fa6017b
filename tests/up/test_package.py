"""BenchLab as a package: what the wheel and the sdist hold, and that each, installed, runs a first campaign."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hatchling.builders.plugin.interface import BuilderInterface
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from benchlab import __version__, installation
from benchlab.up import bootstrap, command, supervisor
from benchlab.up.ports import free_port
from benchlab.up.state import State, state_from_environment
from benchlab.up.trouble import Trouble

ROOT = installation.ROOT
PACKED = {"docs", "static", "templates"}
FOR_DEVELOPERS = ("benchlab/testing/", "benchlab/up/linting.py")
# A package's own: neither this run's stores nor its state.
NOT_PASSED_ON = (
    r"BENCHLAB_.*|(DATABASE|REDIS)_URL|SECRET_KEY|ALLOWED_HOSTS|DJANGO_.*|PYTHON.*|VIRTUAL_ENV"
)
OUTCOMES = """
from benchlab.campaigns.models import Campaign
first = Campaign.objects.get(name__startswith="First campaign")
print([run.attempts.order_by("-number").values_list("outcome", flat=True).first() for run in first.runs.all()])
"""


def listed(builder: BuilderInterface) -> set[str]:
    """Files that it would pack, by their name in there."""
    return {file.distribution_path for file in builder.recurse_included_files()}


def tracked() -> set[str]:
    """What the program consists of: all that git has below its directories, or would have."""
    named = ["--cached", "--others", "--exclude-standard", "benchlab", "agents", *sorted(PACKED)]
    argv = ["git", "ls-files", *named]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    return {
        name
        for name in done.stdout.splitlines()
        if (ROOT / name).exists() and not name.startswith(FOR_DEVELOPERS)
    }


def test_the_wheel_holds_all_that_the_program_reads():
    """Its templates and static files were once missing, and it had no command."""
    wanted = {
        f"benchlab/_data/{name}" if name.split("/")[0] in PACKED else name for name in tracked()
    }
    kinds = [
        ".html",
        ".css",
        ".woff2",
        ".md",
        ".webp",
        ".sh",
        ".toml",
        ".json",
        "py.typed",
        "squashed.py",
    ]
    assert all(any(name.endswith(kind) for name in wanted) for kind in kinds)
    found = listed(WheelBuilder(str(ROOT)))
    assert found == wanted
    assert not [name for name in found if re.search(r"(^|/)(tests?|conftest)(/|\.py)", name)]


def test_the_sdist_holds_what_the_wheel_is_made_of():
    found = listed(SdistBuilder(str(ROOT)))
    assert tracked() <= found
    # pyproject.toml is added by whatever builds one.
    assert {"README.md", "LICENSE", "manage.py", "requirements.lock"} <= found
    assert not [name for name in found if name.startswith(("tests", *FOR_DEVELOPERS))]


def test_the_version_stands_in_one_place(admin_client):
    assert WheelBuilder(str(ROOT)).metadata.version == __version__
    assert "version" not in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"BenchLab {__version__}</footer>" in admin_client.get("/").content.decode()
    assert admin_client.get("/api/").json()["version"] == __version__


def test_the_command_tells_it(capsys):
    assert command.run(["benchlab", "--version"]) == 0
    assert capsys.readouterr().out == f"BenchLab {__version__}\n"


@pytest.fixture
def installed(monkeypatch, tmp_path) -> Path:
    """As in a package, for a user with this home."""
    monkeypatch.setattr(installation, "INSTALLED", True)
    monkeypatch.setattr(command, "INSTALLED", True)
    monkeypatch.delenv("BENCHLAB_STATE", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_package_keeps_its_state_with_the_user(installed, monkeypatch):
    assert state_from_environment() == State(installed / ".local/state/benchlab")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # to be ignored, says the standard
    assert state_from_environment() == State(installed / ".local/state/benchlab")
    monkeypatch.setenv("XDG_STATE_HOME", "/srv/state")
    assert state_from_environment() == State(Path("/srv/state/benchlab"))
    assert state_from_environment().option == ""
    monkeypatch.setenv("BENCHLAB_STATE", "/srv/my lab")
    assert state_from_environment() == State(Path("/srv/my lab"))
    assert state_from_environment().option == " --state '/srv/my lab'"


def test_a_user_without_a_home_is_told_what_to_do(installed, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    with pytest.raises(Trouble, match="--state DIR"):
        state_from_environment()


@pytest.mark.parametrize(
    "words", [["--state", "/x", "down"], ["down", "--state", "/x"], ["down", "--state=/x"]]
)
def test_the_state_is_named_before_or_after_the_word(words, monkeypatch):
    monkeypatch.setenv("BENCHLAB_STATE", "/another")
    monkeypatch.setattr(command, "down", len)
    assert command.run(["benchlab", *words]) == 0
    assert os.environ["BENCHLAB_STATE"] == "/x"


def test_what_is_not_benchlabs_own_is_left():
    argv = ["manage.py", "shell", "--", "--state", "/x"]
    assert bootstrap.take_option(argv, "--state") == (None, argv)
    with pytest.raises(Trouble, match="--state needs a directory"):
        bootstrap.take_option(["manage.py", "up", "--state"], "--state")


@pytest.mark.parametrize("word", ["test", "lint", "bench"])
def test_what_is_for_developers_needs_a_checkout(word, installed, capsys):
    assert command.run(["benchlab", word]) == Trouble.exit_code
    assert "needs a checkout" in capsys.readouterr().err


def test_texts_name_the_command_that_there_is(installed):
    assert installation.command("down") == "benchlab down"
    assert "  benchlab up " in command.help_text() and "manage.py" not in command.help_text()


@pytest.mark.parametrize("word", ["web", "worker", "beat"])
def test_a_part_alone_wants_its_stores_named(word, monkeypatch, tmp_path, capsys):
    for name in ("BENCHLAB_NO_BOOTSTRAP", "DATABASE_URL", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    assert command.run(["benchlab", word, "--state", str(tmp_path)]) == Trouble.exit_code
    assert "set DATABASE_URL and REDIS_URL" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["web", "worker", "beat"])
def test_a_wrong_setting_is_told_without_a_traceback(word):
    env = {**os.environ, "BENCHLAB_NO_BOOTSTRAP": "1", "BENCHLAB_GRACE_DAY": "3"}
    argv = [*installation.program(), word]
    done = subprocess.run(argv, env=env, cwd="/", capture_output=True, text=True, timeout=60)
    assert done.returncode == Trouble.exit_code
    assert done.stderr == (
        "BENCHLAB_GRACE_DAY: BenchLab has no such setting; did you mean BENCHLAB_GRACE_DAYS?\n"
    )


def test_what_a_part_of_up_says_to_put_right_is_told_alone(tmp_path):
    """A traceback once came before the sentence."""
    state = State(tmp_path)
    state.create()
    up = supervisor.Supervisor(state, supervisor.Wish("127.0.0.1", 1, False))
    log = up.logs.path("prepare")
    log.write_text("of an earlier start\n")
    begins = log.stat().st_size

    def told(code: int, begins: int) -> str:
        return str(up.failure("`prepare` failed", "prepare", code, begins))

    try:
        log.write_text(f"{log.read_text()}BENCHLAB_X: no such setting\n")
        assert told(Trouble.exit_code, begins) == "BENCHLAB_X: no such setting"
        assert "failed (exit 1). The end of" in told(1, begins)
        log.write_text("Traceback (most recent call last):\n  ...\nKeyError: 1\n")
        assert "The end of" in told(Trouble.exit_code, 0)
    finally:
        up.logs.close()


@pytest.mark.night
def test_up_tells_a_wrong_setting_in_one_sentence():
    kept = {k: v for k, v in os.environ.items() if not re.fullmatch(NOT_PASSED_ON, k)}
    with tempfile.TemporaryDirectory(prefix="benchlab-wrong-") as lab:
        argv = [*installation.program(), "--state", lab, "up", "--port", str(free_port())]
        env = {**kept, "BENCHLAB_GRACE_DAY": "3"}
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == Trouble.exit_code
    assert done.stderr.startswith("BENCHLAB_GRACE_DAY: ") and done.stderr.count("\n") == 1


def python_of(minor: int) -> str:
    """A Python 3.`minor` with venv and pip; skips where there is none."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
    for found in (shutil.which(f"python3.{minor}", path="/usr/bin"), *map(str, pyenv)):
        probe = f"import sys, ensurepip; assert sys.version_info[:2] == (3, {minor})"
        if found and subprocess.run([found, "-c", probe], capture_output=True).returncode == 0:
            return found
    pytest.skip(f"no Python 3.{minor} with ensurepip here")


class Package:
    """An environment that holds nothing but the installed package, a home and a state of its own."""

    def __init__(self, place: Path, lab: Path, python: str) -> None:
        self.place, self.port, self.lab = place, free_port(), lab
        kept = {k: v for k, v in os.environ.items() if not re.fullmatch(NOT_PASSED_ON, k)}
        self.env = {**kept, "HOME": str(place)}
        self.venv = place / "venv"
        self.run(python, "-m", "venv", str(self.venv))

    def run(self, *argv: str) -> str:
        done = subprocess.run(argv, env=self.env, cwd="/", capture_output=True, text=True, timeout=600)  # fmt: skip
        assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def benchlab(self, *words: str) -> str:
        return self.run(str(self.venv / "bin" / "benchlab"), *words)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Path]:
    place = str(tmp_path_factory.mktemp("dist"))
    wheel = next(iter(WheelBuilder(str(ROOT)).build(directory=place, versions=["standard"])))
    sdist = next(iter(SdistBuilder(str(ROOT)).build(directory=place)))
    return {"wheel": Path(wheel), "sdist": Path(sdist)}


@pytest.fixture
def package(request) -> Iterator[Package]:
    python = python_of(request.param)
    # Root starts no tool that lies where others may write, as in /tmp.
    top = "/opt" if os.geteuid() == 0 else None
    with (
        tempfile.TemporaryDirectory(prefix="benchlab-package-", dir=top) as place,
        tempfile.TemporaryDirectory(prefix="benchlab-lab-") as lab,
    ):
        Path(place).chmod(0o755)  # PostgreSQL's own user runs its programs, which lie in there
        made = Package(Path(place), Path(lab), python)
        yield made
        if (made.venv / "bin" / "benchlab").exists():
            made.benchlab("--state", lab, "down")


@pytest.mark.night
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("what", ["wheel", "sdist"])
@pytest.mark.parametrize("package", [11, 12, 13, 14], ids="3.{}".format, indirect=True)
def test_installed_alone_it_runs_a_first_campaign(package, what, built):
    pip = (str(package.venv / "bin" / "python"), "-m", "pip", "install", "-q")
    # Versions that were tested, where the lock has one for this Python.
    package.run(*pip, "-c", str(unhashed(package.place)), str(built[what]))
    assert package.benchlab("--version") == f"BenchLab {__version__}\n"
    state = ("--state", str(package.lab))
    said = package.benchlab("up", "--detach", "--port", str(package.port), *state)
    assert f"`benchlab down --state {package.lab}`" in said
    deadline = time.monotonic() + 900
    while not (outcomes := over(package, state)):
        assert time.monotonic() < deadline, (package.lab / "logs/up.log").read_text()
        time.sleep(2)
    assert set(outcomes) == {"succeeded"}
    checked = package.benchlab(*state, "check")
    assert "ok     DATABASE_URL" in checked and "ok     REDIS_URL" in checked
    assert "is stopped" in package.benchlab("down", *state)
    assert not list((package.venv / "lib").glob("python*/site-packages/.venv"))


def over(package: Package, state: tuple[str, str]) -> list[str]:
    """The runs' outcomes once the first campaign is over; [] before."""
    try:
        said = package.benchlab(*state, "shell", "--no-imports", "-c", OUTCOMES)
    except AssertionError as error:
        if "DoesNotExist" in str(error):  # it is not made yet
            return []
        raise
    words = re.findall(r"'(\w*)'|None", said)
    return words if words and all(words) else []


def unhashed(place: Path) -> Path:
    """The lock as constraints: pip takes no hashes for a file that it is given itself."""
    lock = (ROOT / "requirements.lock").read_text()
    found = place / "constraints.txt"
    found.write_text("\n".join(re.findall(r"^(\S+==[^\\\n]+?) *\\?$", lock, re.MULTILINE)))
    return found
