"""The documents name every setting, driver and page; their links lead somewhere, their commands and options exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from agents.drivers import registry
from benchlab.testing.command import BENCH, run_tests
from benchlab.up.bootstrap import ROOT
from benchlab.up.command import FOR_DEVELOPERS, LOADED, SERVICES, up
from benchlab.up.install_service import run as install_service
from benchlab.up.linting import run_lint

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
GUIDE, OPERATING = ROOT / "docs" / "guide.md", ROOT / "docs" / "operating.md"
OWN = {"up", "down", *SERVICES, *LOADED, *FOR_DEVELOPERS}
DJANGOS = {"help"}  # in none of its lists
HELPS: dict[str, Callable[[list[str]], int]] = {
    "up": up, "install-service": install_service, "test": run_tests, "lint": run_lint}  # fmt: skip
OPTION = r"(?<![\w-])--[a-z][a-z-]*"
# Of tests/agents/conftest.py.
OF_PYTEST = {"--accept"}
SETTING = (
    r'"(BENCHLAB_[A-Z_]+|DATABASE_URL|REDIS_URL|SECRET_KEY|ALLOWED_HOSTS|CSRF_TRUSTED_ORIGINS)"'
)
# What one of our processes tells another, the command tool's environment (guide), and NAME_FILE of a NAME.
NOT_FOR_PEOPLE = re.compile(
    r"BENCHLAB_(TEST|NO_BOOTSTRAP|INSTALLATION|FINISHES|VOLUME|SIZE|MOUNT|PARAMETER|OUTSTANDING)|.*_FILE$"
)


def kinds() -> Iterable[str]:
    return {
        *registry.all_layers(),
        *registry.all_tools(),
        *registry.all_samplers(),
        *registry.all_readers(),
    }


def settings() -> set[str]:
    sources = (
        path.read_text() for top in ("benchlab", "agents") for path in (ROOT / top).rglob("*.py")
    )
    found = {name for text in sources for name in re.findall(SETTING, text)}
    return {name for name in found if not NOT_FOR_PEOPLE.match(name)}


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_every_driver_is_in_the_guide(kind):
    assert f"`{kind}`" in GUIDE.read_text()


@pytest.mark.parametrize("name", sorted(settings()))
def test_every_setting_is_told(name):
    told = OPERATING.read_text()
    family, _, rest = name.removeprefix("BENCHLAB_").partition("_")
    short = f"`_{rest}`" in told and f"`BENCHLAB_{family}_" in told  # `BENCHLAB_OIDC_URL`, `_NAME`
    assert name in told or short


@pytest.mark.parametrize("page", ["Home", "Campaigns", "Hosts", "Topologies", "Workloads", "Import", "Library",
                                  "Explore", "Team", "API"])  # fmt: skip
def test_every_page_of_the_menu_is_in_the_guide(page):
    assert f">{page}</a>" in (ROOT / "templates" / "_side.html").read_text()
    assert page in GUIDE.read_text().partition("## Pages")[2]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text())
    gone = [to for to in links if "://" not in to and not (document.parent / to).exists()]
    assert gone == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_exist(document):
    used = set(re.findall(r"(?:python3 |`)manage\.py ([a-z_][a-z_-]*)", document.read_text()))
    assert used <= OWN | DJANGOS | set(get_commands())


def options(command: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """The options that a command of manage.py lists in its help; pytest's own that documents name are there, too."""
    if command in HELPS:
        with pytest.raises(SystemExit):
            HELPS[command](["--help"])
        help_text = capsys.readouterr().out
    elif command in OWN:
        help_text = BENCH if command == "bench" else ""
    else:
        parser = load_command_class(get_commands()[command], command).create_parser("", command)
        help_text = parser.format_help()
    return set(re.findall(OPTION, help_text)) | (OF_PYTEST if command == "test" else set())


def unknown_options(text: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    found = []
    for command, words in re.findall(r"manage\.py ([a-z_][a-z_-]*)([^`#\n]*)", text):
        known = options(command, capsys) if "--" in words else set()
        found += [f"{command} {word}" for word in re.findall(OPTION, words) if word not in known]
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_options_of_commands_exist(document, capsys):
    assert unknown_options(document.read_text(), capsys) == []


def test_what_the_program_tells_people_to_run_is_there(capsys):
    """In messages, helps and pages."""
    told = [path for path in sources() if not path.is_relative_to(ROOT / "tests")]
    told += [path for top in ("templates", "static") for path in (ROOT / top).rglob("*.[hj][ts]*")]
    wrong = []
    for path in told:
        text = "\n".join(texts_of(path)) if path.suffix == ".py" else path.read_text()
        named = set(re.findall(r"(?:python3 |`)manage\.py ([a-z_][a-z_-]*)", text))
        # As benchlab/installation.py says it: a page's tag, a text's function.
        if not path.is_relative_to(ROOT / "agents"):
            named |= set(re.findall(r"""\bcommand(?: |\()f?['"]([a-z_]+)""", path.read_text()))
        wrong += [f"{path}: {one}" for one in sorted(named - OWN - DJANGOS - set(get_commands()))]
        wrong += [f"{path}: {one}" for one in unknown_options(text, capsys)]
    assert wrong == []


def texts_of(path: Path) -> list[str]:
    """A module's strings, each on a line of its own: of a formatted one what does not change."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    parts = {id(part) for one in nodes if isinstance(one, ast.JoinedStr) for part in one.values}
    whole = [one for one in nodes if isinstance(one, ast.Constant) and id(one) not in parts]
    found = [one.value for one in whole if isinstance(one.value, str)]
    for one in nodes:
        if isinstance(one, ast.JoinedStr):
            kept = [part.value for part in one.values if isinstance(part, ast.Constant)]
            found.append("...".join(str(part) for part in kept))
    return [" ".join(text.split()) for text in found]


def test_an_option_that_is_none_is_found(capsys):
    told = "`manage.py test --ci --fast`, `manage.py up --port 1 --ports`, manage.py down --now\n--else"
    assert unknown_options(told, capsys) == ["test --fast", "up --ports", "down --now"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_benchmarks_exist(document):
    named = re.findall(r"(?:manage\.py |`)bench ([a-z_]+)`", document.read_text())
    there = [path.stem for path in (ROOT / "tests" / "bench").glob("bench_*.py")]
    assert [name for name in named if not any(name in stem for stem in there)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_settings_that_are_named_exist(document):
    named = set(re.findall(r"BENCHLAB_[A-Z_]*[A-Z]", document.read_text()))
    assert sorted(named - known_settings()) == []


@cache
def known_settings() -> set[str]:
    files = [*sources(), ROOT / "Dockerfile", ROOT / "docker-compose.yml"]
    return {
        name for path in files for name in re.findall(r"BENCHLAB_[A-Z_]*[A-Z]", path.read_text())
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_are_named_are_there(document):
    named = re.findall(
        r"`((?:agents|benchlab|tests|docs|notebooks)/[\w./-]+)`", document.read_text()
    )
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_tests_that_are_named_exist(document):
    named = re.findall(r"([\w/]*\w+\.py)::(test_\w+)", document.read_text())
    assert [f"{path}::{test}" for path, test in named if not has_test(path, test)] == []


def has_test(path: str, test: str) -> bool:
    """A path may leave out the folders it begins with."""
    there = (ROOT / "tests").rglob(Path(path).name)
    return any(f"def {test}(" in one.read_text() for one in there if str(one).endswith(f"/{path}"))


def test_the_readme_is_read_in_one_go():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_every_document_is_reached_from_the_readme():
    readme = (ROOT / "README.md").read_text()
    assert [
        path for path in (ROOT / "docs").glob("*.md") if f"docs/{path.name}" not in readme
    ] == []
    assert Path(ROOT / "CONTRIBUTING.md").exists()


def sources() -> list[Path]:
    return [path for top in ("agents", "benchlab", "tests") for path in (ROOT / top).rglob("*.py")]


# Files that reports and tests make.
MADE = {"report.md", "b.md"}


def test_documents_that_code_cites_are_there():
    # "docs/method.md" is of the repository, "VENDORED.md" of some folder of it, and "{name}.md" is no name.
    there = {path.name for path in [*DOCUMENTS, *(ROOT / "static").rglob("*.md")]} | MADE
    cited = {
        (str(path.relative_to(ROOT)), name)
        for path in sources()
        for name in re.findall(r"(?<![\w/}.-])(?:[\w.-]+/)*[A-Za-z][\w-]*\.md\b", path.read_text())
    }
    assert [
        (path, name)
        for path, name in sorted(cited)
        if not ((ROOT / name).exists() if "/" in name else name in there)
    ] == []


def test_every_claim_of_security_names_the_test_that_holds_it():
    rows = claims((ROOT / "THREAT_MODEL.md").read_text())
    assert len(rows) > 70
    assert [claim for claim, held_by in rows if not all(map(names_a_test, held_by))] == []


def claims(text: str) -> list[tuple[str, list[str]]]:
    """(claim, what holds it) of each row."""
    listed = text.partition("## What holds")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in listed.splitlines() if line.startswith("| ")]
    return [(said.strip(), by.split(",")) for said, by in rows if said.strip() != "Claim"]


def names_a_test(said: str) -> bool:
    found = re.fullmatch(r" *`(tests/[\w/]+\.py)::(test_\w+)` *", said)
    return found is not None and f"def {found[2]}(" in (ROOT / found[1]).read_text()


def test_a_claim_without_its_test_is_found():
    text = "## What holds\n| Claim | Held by |\n|---|---|\n| a | |\n| b | `tests/x.py` |\n\n## More\n| c | |\n"
    found = claims(text)
    assert [claim for claim, _ in found] == ["a", "b"]
    assert not any(names_a_test(one) for _, held_by in found for one in held_by)
