"""The report of a run: counts, shares and the slowest; each failure with its reason, its command and its hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchlab.testing import profiles, report
from tests import failures

XML = """<?xml version="1.0"?><testsuites><testsuite tests="4" failures="1" errors="1" skipped="1">
<testcase classname="tests.agents.test_guard" name="test_a[x]" time="2.5"/>
<testcase classname="tests.agents.test_guard" name="test_b" time="0.5"><failure message="AssertionError:
  1 == 2">def test_b(): ...</failure></testcase>
<testcase classname="tests.testing.test_reporting" name="test_c" time="40.0"><error/></testcase>
</testsuite></testsuites>"""


def test_counts_and_times_of_a_report(tmp_path, capsys):
    (tmp_path / "report.xml").write_text(XML)
    count, cases = report.read(tmp_path / "report.xml")
    assert str(count) == "1 passed, 2 failed, 1 skipped"
    assert cases[0] == report.Case("tests/agents/test_guard.py", "test_a[x]", 2.5)
    report.print_shares(
        [report.Result("one", 30, count, cases), report.Result("two", 10, count, ())]
    )
    said = capsys.readouterr().out
    assert "one: 30 s (75%), 1 passed, 2 failed, 1 skipped" in said
    assert said.index("40.0 s  tests/testing/test_reporting.py::test_c") < said.index("2.5 s  ")


COMMAND = "python3 manage.py test --ci --seed 7"


def closing_lines(*cases: report.Case) -> list[str]:
    return report.closing_lines([report.Result("one", 1.0, report.Count(), cases)], COMMAND)


def failed(file: str, name: str) -> report.Case:
    return report.Case(file, name, 0.1, "AssertionError: 1 == 2")


def test_the_last_lines_name_each_failure_its_reason_and_its_command(tmp_path):
    (tmp_path / "report.xml").write_text(XML)
    assert closing_lines(*report.read(tmp_path / "report.xml")[1]) == [
        "FAILED tests/agents/test_guard.py::test_b",
        "  AssertionError: 1 == 2",
        f"  {COMMAND} tests/agents/test_guard.py::test_b",
        "FAILED tests/testing/test_reporting.py::test_c",
        "  error",
        f"  {COMMAND} tests/testing/test_reporting.py::test_c",
    ]


def test_a_command_quotes_what_a_shell_would_read():
    assert (
        closing_lines(failed("a.py", "test_a[it's]"))[-1]
        == f"""  {COMMAND} 'a.py::test_a[it'"'"'s]'"""
    )


def test_a_group_that_crashed_is_named():
    crash = report.Case("", "rig", 0.0, "pytest ended with exit code 3, see above")
    assert closing_lines(crash) == [
        "FAILED rig",
        "  pytest ended with exit code 3, see above",
        f"  {COMMAND}",
    ]


@pytest.mark.parametrize(
    ("files", "tests"), [(1, 12), (1, 13), (1, 400), (12, 40), (13, 40), (30, 31), (90, 90)]
)
def test_however_many_fail_the_last_lines_are_few_and_lead_to_all(files, tests):
    cases = [failed(f"tests/test_{n % files}.py", f"test_a[{n}]") for n in range(tests)]
    lines = closing_lines(*cases)
    assert len(lines) <= report.MOST_LINES + 1
    commands = " ".join(line for line in lines if COMMAND in line)
    assert all(f"tests/test_{n}.py" in commands for n in range(files))


def test_of_one_file_the_functions_are_counted():
    lines = closing_lines(
        *(failed("a.py", f"test_a[{n}]") for n in range(40)), failed("a.py", "test_b")
    )
    assert lines == [
        "FAILED a.py: test_a (40), test_b",
        "  test_a[0]: AssertionError: 1 == 2",
        f"  {COMMAND} a.py",
    ]


def test_a_report_that_is_not_there_is_a_failure(tmp_path):
    assert report.read(tmp_path / "none.xml")[0].failed == 1


def test_the_table_says_what_each_file_proves(tmp_path):
    (tmp_path / "report.xml").write_text(XML)
    count, cases = report.read(tmp_path / "report.xml")
    lines = report.table([report.Result("one", 30, count, cases)]).splitlines()
    assert lines[2].startswith(
        "| tests/testing/test_reporting.py | 1 | 40.0 | The report of a run:"
    )
    assert lines[3].startswith("| tests/agents/test_guard.py | 2 | 3.0 | ")


def test_what_passed_before_an_interruption_counts():
    earlier = report.earlier({"tests/agents/test_guard.py::test_a[x::y]": 2.0})
    assert earlier.count.passed == 1
    assert "| tests/agents/test_guard.py | 1 | 2.0 | " in report.table([earlier])


def test_every_test_file_says_what_it_proves():
    root = Path(__file__).parents[1]
    assert [p for p in sorted(root.rglob("test_*.py")) if not report.proves(p)] == []


def test_commands_on_hosts_are_noted_with_their_end(monkeypatch):
    noted: list[str] = []
    monkeypatch.setattr(failures, "_commands", noted)

    class Ran:
        exit_code = 3

    def run(self, argv, *, timeout_s=1.0):
        if timeout_s == 0:
            raise TimeoutError
        return Ran()

    noting = failures.noting(run, lambda ran: f"exit {ran.exit_code}")
    assert noting(None, ("lvs", "--all")).exit_code == 3
    with pytest.raises(TimeoutError):
        noting(None, ("vgs",), timeout_s=0)
    noting(None, ("sh", "-c", "# every script's head\n# goes on\nset -e\nlvs\n", "name"))
    assert noted == ["exit 3: lvs --all", "TimeoutError: vgs", "exit 3: sh -c set -e ... name"]


def test_another_file_begins_with_no_commands(monkeypatch):
    noted = ["exit 0: lvs"]
    monkeypatch.setattr(failures, "_commands", noted)
    monkeypatch.setattr(failures, "_file", "tests/a.py")
    failures.Failures().pytest_runtest_logstart(("tests/a.py", 3, "test_b"))
    assert noted
    failures.Failures().pytest_runtest_logstart(("tests/c.py", 3, "test_b"))
    assert not noted


def test_a_failure_says_how_to_repeat_it():
    section = failures.again("tests/a.py::test_b[c]")
    profile, seed = profiles.profile(), profiles.seed()
    assert section == f"python3 manage.py test --{profile} --seed {seed} 'tests/a.py::test_b[c]'"
