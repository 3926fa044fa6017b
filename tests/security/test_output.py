"""Hostile words on their other ways: into logs, terminals, figures, archives, and into later commands."""

from __future__ import annotations

import ast
import io
import json
import logging
import logging.config
import shlex
import subprocess
import tarfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.management import call_command
from django.core.management.base import CommandError

from agents import quote
from agents.contracts import AgentError, Metric, ParseError, Ran, Series, Unit
from agents.jobs import job, spool
from agents.plaintext import CONTROL, one_line, visible
from benchlab import terminal
from benchlab.logs import INDENT, JsonFormatter, LineFormatter
from benchlab.runs import artifact_figures
from benchlab.web import texts
from tests.charts import made
from tests.security.hostile import ALL, FORMULA, LONG, MARKUP, PROMPT, SHELL, TERMINAL

ROOT = Path(__file__).parents[2]
WORDS = [
    MARKUP,
    SHELL,
    TERMINAL,
    PROMPT,
    FORMULA,
    ALL,
    "a\0b",
    "\ud800",
    "\u2028x",
    "\x85",
    "\x9b31m",
    "a\r\nb",
]


# --- logs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", WORDS)
def test_an_event_is_one_line_of_the_log(words):
    record = logging.makeLogRecord({"msg": "host says %s", "args": (words,), "name": words})
    line = LineFormatter("{levelname} {name} {message}", style="{").format(record)
    assert len(line.splitlines()) == 1 and not CONTROL.search(line)


@pytest.mark.parametrize("words", WORDS)
def test_an_event_is_one_object_of_the_log(words):
    try:
        raise ValueError(words)
    except ValueError as error:
        told = (ValueError, error, error.__traceback__)
    given = {"msg": "host says %s", "args": (words,), "name": words, "exc_info": told}
    line = JsonFormatter().format(logging.makeLogRecord(given))
    assert len(line.splitlines()) == 1 and line.isascii() and not CONTROL.search(line)
    found = json.loads(line)
    assert found["message"] == f"host says {visible(words)}"
    assert "ValueError" in found["exception"] and not CONTROL.search(found["exception"])


def test_lines_of_a_traceback_are_set_in_and_plain():
    try:
        raise ValueError(PROMPT + TERMINAL)
    except ValueError as error:
        record = logging.makeLogRecord(
            {"msg": "x", "exc_info": (ValueError, error, error.__traceback__)}
        )
    first, *rest = LineFormatter("{message}", style="{").format(record).split("\n")
    assert first == "x" and rest and all(line.startswith(INDENT) for line in rest)
    assert not CONTROL.search("\n".join(rest))


def test_every_log_handler_of_ours_writes_so():
    said: Any = django_settings.LOGGING
    assert {handler["formatter"] for handler in said["handlers"].values()} == {"line"}
    made = {name: one["()"] for name, one in said["formatters"].items()}
    assert made == {"line": "benchlab.logs.LineFormatter", "json": "benchlab.logs.JsonFormatter"}


def test_a_megabyte_is_cut():
    record = logging.makeLogRecord({"msg": LONG})
    assert len(LineFormatter("{message}", style="{").format(record)) < 10_000


# --- terminals ----------------------------------------------------------------------------------------------------


def commands() -> list[Path]:
    return [
        path
        for path in sorted(ROOT.glob("benchlab/*/management/commands/*.py"))
        if path.stem != "__init__"
    ]


@pytest.mark.parametrize("path", commands(), ids=lambda path: path.stem)
def test_every_command_of_ours_prints_plain_text(path):
    module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    assert issubclass(module.Command, terminal.Command)
    printed = {node.func.id for node in ast.walk(ast.parse(path.read_text()))
               if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}  # fmt: skip
    assert "print" not in printed


class Says(terminal.Command):
    def handle(self, *args, **options):
        self.stdout.write(ALL + "\0")
        self.stderr.write(ALL)
        raise CommandError(ALL)


def test_what_commands_print_paints_no_terminal(capsys):
    with pytest.raises(CommandError):
        call_command(Says())
    said = capsys.readouterr()
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(CommandError):
        call_command(Says(), stdout=out, stderr=err)
    for text in (said.out, said.err, out.getvalue(), err.getvalue()):
        assert "pwned" in text and not CONTROL.search(text)


def test_also_the_last_word_of_a_command_that_fails(capsys):
    with pytest.raises(SystemExit):
        Says().run_from_argv(["manage.py", "says"])
    said = capsys.readouterr()
    assert not CONTROL.search(said.out + said.err)


# --- figures and files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", WORDS)
def test_cells_of_a_spreadsheet_are_words(words):
    cell = str(texts.csv_cell(words))
    assert not cell.startswith(texts.FORMULA_STARTS) and not CONTROL.search(cell)
    assert texts.csv_cell(-1.5) == -1.5


def test_figures_are_called_something_that_can_be_kept():
    found = artifact_figures.storable_metrics(
        [Metric("iops", 1.0, Unit.RATIO, {"job\0": ALL + "\ud800"}, note=LONG)]
    )
    assert not CONTROL.search(str(found[0].labels)) and len(found[0].note) < 10_000
    with pytest.raises(ParseError, match="characters long"):
        artifact_figures.storable_metrics([Metric("x" * 101, 1.0, Unit.RATIO)])
    with pytest.raises(ParseError, match="comes 2 times"):
        artifact_figures.storable_metrics(
            [Metric("x", 1.0, Unit.RATIO), Metric("x", 2.0, Unit.RATIO)]
        )
    one = Series("sdb", "util", Unit.RATIO, (1.0,), (1.0,))
    with pytest.raises(ParseError, match="comes 2 times"):
        artifact_figures.storable_series([("diskstats", one), ("diskstats", one)])


@pytest.mark.parametrize("value", [1e300, -1e31, 5e-324, float("inf"), float("nan")])
def test_a_value_that_nothing_can_have_is_not_known(value):
    """A ratio of two of them was infinite or nothing, and the campaign's page an internal error from then on."""
    told = [
        Metric("iops", value, Unit.OPS_PER_SECOND, note="As printed."),
        Metric("lat.mean", 0.0, Unit.SECONDS),
    ]
    absurd, nothing = artifact_figures.storable_metrics(told)
    assert absurd.value is None and absurd.note.endswith("which nothing can have. As printed.")
    assert nothing == told[1]
    sampled = Series("sdb", "await", Unit.SECONDS, (1.0, 2.0), (value, 0.5))
    [(_, kept)] = artifact_figures.storable_series([("diskstats", sampled)])
    known = value if abs(value) < 1 else pytest.approx(float("nan"), nan_ok=True)
    assert list(kept.values) == [known, 0.5]


def test_what_can_be_kept_can_be_shown(web, team):
    """The largest beside the smallest, as an upload may pair them."""
    host, load, campaign = made.host(team), made.workload(team), made.campaign(team)
    for name, top in (("A", artifact_figures.GREATEST), ("B", artifact_figures.LEAST)):
        layout = made.done_layout(campaign, host, made.topology(team, name))
        for depth, repeat in ((1, 1), (1, 2), (8, 1), (8, 2)):
            attempt = made.finished(campaign, layout, load, depth, repeat, 1000.0)
            attempt.measurements.update(value=top)
    for page in ("/campaigns/{0}/", "/campaigns/{0}/report/", "/api/verdicts/?campaign={0}"):
        assert web.get(page.format(campaign.pk)).status_code == 200, page


def tar(*members: tuple[str, dict]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as made:
        for name, how in members:
            member = tarfile.TarInfo(name)
            for key, value in how.items():
                setattr(member, key, value)
            member.size = 0
            made.addfile(member)
    return buffer.getvalue()


@pytest.mark.parametrize("member", [
    ("../../etc/passwd", {}), ("/etc/passwd", {}), ("work/../stdout", {}), ("stdout/", {"type": tarfile.DIRTYPE}),
    ("stdout", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}),
    ("stdout", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}), ("stdout", {"type": tarfile.CHRTYPE}),
    ("stdout", {"type": tarfile.FIFOTYPE}), ("runner.sh", {}), ("work/other", {}), (TERMINAL, {}), (MARKUP, {}),
])  # fmt: skip
def test_archives_with_tricks_are_refused_whole(member):
    with pytest.raises(AgentError) as raised:
        spool.unpack(tar(member, ("benchlab", {})), {"stdout": "stdout", "work/out": "out"})
    assert not CONTROL.search(str(raised.value))


@pytest.mark.parametrize("raw", [b"", b"\0" * 10240, b"A" * 10240, tar(("stdout", {}))])
def test_archives_that_are_none_are_refused(raw):
    with pytest.raises(AgentError):
        spool.unpack(raw, {"stdout": "stdout"})


class Answers:
    """A shell whose every command prints this."""

    def __init__(self, out: bytes) -> None:
        self.out = out

    def run(self, argv, *, stdin=b"", root=False, timeout_s=60.0) -> Ran:
        return Ran(tuple(argv), 0, self.out, b"", 0.0)


@pytest.mark.parametrize("answer", [
    b"", b"\0", b"state=\x1b[31mpwned\n\n", b"state=exited\nexit=99999999999\n\n", b"state=running\nfrom=-5\n\n",
    b"state=exited\nexit=" + b"9" * 5000 + b"\n\n", ALL.encode(), LONG.encode(),
])  # fmt: skip
def test_answers_of_a_runner_that_lies(answer):
    try:
        polled = job.poll(Answers(answer), spool.Spool("attempt-1"), offset=10)
    except AgentError as error:
        assert not CONTROL.search(str(error)) and len(str(error)) < 10_000
    else:
        assert polled.exit_code is None or 0 <= polled.exit_code <= 255
        assert polled.offset >= 10


def test_samples_beyond_what_was_asked_for_are_dropped():
    polled = job.poll(
        Answers(b"state=running\nfrom=0\n\n" + b"A" * (job.POLL_CAP * 2)), spool.Spool("attempt-1")
    )
    assert len(polled.new_samples) == job.POLL_CAP


# --- later commands -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", [w for w in WORDS if "\0" not in w and "\ud800" not in w])
def test_a_name_in_a_later_command_is_one_word_to_a_real_shell(word):
    line = quote.command_line(("printf", "%s", word))
    assert shlex.split(line) == ["printf", "%s", word]
    done = subprocess.run(["sh", "-c", line], capture_output=True, check=True)
    assert done.stdout.decode() == word and done.stderr == b""


def test_a_name_with_a_nul_is_refused():
    with pytest.raises(AgentError, match="NUL"):
        quote.command_line(("mkfs", "a\0b"))


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "", ".", "..", "-rf", "a b", "a\nb", "$(id)", "benchlab", "stdout"]
)
def test_no_file_of_a_job_is_called_so(name):
    with pytest.raises(AgentError):
        spool.check_file_name(name)


def test_plain_text_is_left_as_it_is():
    text = "Grüße, 4 KiB → 12.3 k IOPS\n\tß 漢字 🙂"
    assert visible(text) == text and one_line("a\nb") == "a\\nb"
