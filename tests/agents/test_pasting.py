"""The same results, whatever a terminal, a mail, a page or a log put around the lines."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.drivers import registry, text_reading
from agents.texts import pasting
from agents.texts.parsed_result import LineIndex
from benchlab.imports import texts
from tests.each_case import check_each

CASES = Path(__file__).parents[1] / "cases"
OUTPUTS = {
    "fio": ("fio --name=n --rw=randrw", "tools/fio/3.16-text.txt"),
    "fio JSON": ("fio --name=n --output-format=json", "tools/fio/3.33-randrw.json"),
    "fio 1.x": ("fio --name=rr", "readers/fio/decimal-comma-1.59.txt"),
    "dd": ("dd if=/dev/zero of=/mnt/f bs=1M count=1024 oflag=direct", ""),
    "pg_test_fsync": ("pg_test_fsync -f /mnt/f", "readers/pg_test_fsync/first-table-only.txt"),
    "iostat": ("iostat -dxy 1 2", "readers/iostat/sysstat-12.6.1-without-boot.txt"),
    "iostat --pretty": ("iostat -xyt --pretty 1 2", "readers/iostat/sysstat-12.6.1-pretty.txt"),
    "iostat JSON": ("iostat -d -y -o JSON 1 2", "readers/iostat/sysstat-12.6.1-json-short.txt"),
    "zpool iostat": ("zpool iostat -y -v 1 2", "readers/zpool_iostat/2.1.11-latency.txt"),
    "bonnie": ("bonnie++ -d /mnt", "readers/bonnie/direct-2.00-text.txt"),
    "icf": ("cat a.icf", "readers/icf/article002.icf"),
    "DiskSpd": ("type a.txt", "readers/diskspd/old-read-2.0.14.txt"),
    "YABS": ("cat a.txt", "readers/yabs/two-servers.txt"),
    "kbench": ("kubectl logs kbench", "readers/kbench/one-volume.txt"),
    "elbencho": ("elbencho -w -r -t 16 /mnt/s/f1", "readers/elbencho/table.txt"),
}
DD = "1024+0 records in\n1024+0 records out\n1073741824 bytes (1.1 GB, 1.0 GiB) copied, 2.04521 s, 525 MB/s"


def output(name: str) -> tuple[str, list[str]]:
    command, path = OUTPUTS[name]
    lines = (CASES / path).read_text().rstrip().split("\n") if path else DD.split("\n")
    return command, lines[1:] if lines[0].startswith(("$ ", "# ")) else lines


def numbered(form: str) -> Callable[[str, list[str]], str]:
    def made(command: str, lines: list[str]) -> str:
        return "\n".join(
            form.format(n, line) for n, line in enumerate([f"$ {command}", *lines], 97)
        )

    return made


def each(prefix: str, end: str = "") -> Callable[[str, list[str]], str]:
    def made(command: str, lines: list[str]) -> str:
        return "\n".join(f"{prefix}{line}{end}" for line in [f"$ {command}", *lines])

    return made


def typescript(command: str, lines: list[str]) -> str:
    shown = "".join(f"\x1b[0;32m{line}\x1b[0m\r\n" for line in lines)
    return (
        'Script started on 2026-11-22 21:00:00+00:00 [TERM="xterm" COLUMNS="80" LINES="24"]\r\n'
        f"\x1b[?2004h\x1b]0;joe@pg1: ~\x07\x1b[01;32mjoe@pg1\x1b[00m:~$ {command[:3]}x\x08\x1b[K{command[3:]}\r\n"
        f'\x1b[?2004l\r{shown}$ exit\r\n\r\nScript done on 2026-11-22 [COMMAND_EXIT_CODE="0"]\r\n'
    )


PASTES: dict[str, Callable[[str, list[str]], str]] = {
    "sudo": lambda c, o: "\n".join([f"joe@pg1:~$ sudo {c}", "[sudo] password for joe: ", *o, "joe@pg1:~$ "]),
    "ssh": lambda c, o: "\n".join([f"$ ssh pg1 '{c}'", "joe@pg1's password: ", *o, "Connection to pg1 closed."]),
    "watch": lambda c, o: "\n".join([f"Every 2.0s: {c}      pg1: Sun Nov 22 21:00:00 2026", "", *o]),
    "typescript": typescript,
    "windows": each("", "\r"),
    "serial line": each("", "\r\r"),
    "padded": each("", " " * 40),
    "every second line empty": each("", "\n"),
    "markdown": lambda c, o: "\n".join(["I ran:", "```console", f"$ {c}", *o, "```", "what now?"]),
    "markdown, command apart": lambda c, o: "\n".join([f"1. I ran `{c}`:", "```", *o, "```"]),
    "indented": each("    "),
    "tabs": each("\t"),
    "pre": lambda c, o: f"<pre><code>$ {c}\n{html.escape(chr(10).join(o))}</code></pre>",
    "forum": lambda c, o: f"Hi\n[code]$ {c}\n{chr(10).join(o)}[/code]",
    "no-break spaces": lambda c, o: "\n".join([f"$ {c}", *o]).replace("  ", "\xa0 "),
    "mail": lambda c, o: "Joe wrote:\n" + each("> ")(c, o) + "\n\nnice",
    "mail of a mail": lambda c, o: "> Joe wrote:\n" + each(">> ")(c, o) + "\n> yes",
    "mail of a mail, spaced": each("> > "),
    "names of characters": lambda c, o: f"$ {c}\n{html.escape(chr(10).join(o))}\n a &gt; b",
    "pasted escapes": each("^[[0;32m", "^[[0m"),
    "test runner": each("20:22:23 DEBUG| [stdout] "),
    "cat -n": numbered("{:6}\t{}"),
    "grep -n": numbered("{}:{}"),
    "editor": numbered("{:4} {}"),
    "journal": each("Nov 22 21:00:01 pg1 bench[42]: "),
    "docker logs -t": each("2026-11-22T21:00:01.123456789Z "),
    "docker compose": each("fio-1  | "),
}  # fmt: skip


def found(text: str) -> list[Any]:
    shown = texts.decode_upload("pasted.txt", text.encode()).text
    results = text_reading.read_text(shown, "pasted.txt").results
    for one in results:
        if not (one.trouble or one.described):
            again = registry.all_readers()[one.kind].find_results(
                one.own_text(LineIndex(shown)), ""
            )
            assert [len(again), *(other.trouble for other in again)] == [1, ""]
    return [
        (one.kind, one.trouble, one.described, one.options, one.outstanding, one.series,
         [(m.name, m.value, m.labels) for m in one.metrics]) for one in results
    ]  # fmt: skip


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_same_results_in_every_dress(name: str) -> None:
    command, lines = output(name)
    plain = found("\n".join([f"$ {command}", *lines]))
    assert plain and not plain[0][1]

    def check_dress(paste: str) -> None:
        assert found(PASTES[paste](command, lines)) == plain

    check_each(check_dress, PASTES)


def test_a_command_over_several_lines_has_its_marks_off() -> None:
    shown = pasting.strip_marks("$ fio --name=a \\\n> --rw=read \\\n> --bs=4k\n")
    assert shown.text == "$ fio --name=a \\\n--rw=read \\\n--bs=4k\n"
    assert shown.notes == ("Marks of quoting (>) taken off: lines 2–3.",)


@pytest.mark.parametrize(
    "text",
    [
        "> iostat -x 1\nDevice r/s\n",  # a lone prompt
        "1 100 200\n2 110 205\n3 111 206\n4 120 220\n5 130 230\n",  # figures, not a listing
        "1000, 12, 0, 4096\n1001, 13, 0, 4096\n1002, 12, 0, 4096\n",
        "     |  1.00th=[   40],  5.00th=[   43]\n     | 30.00th=[   52], 40.00th=[   55]\n" * 3,
        "11/22/2026 09:00:01 PM\nDevice r/s w/s\n11/22/2026 09:00:02 PM\n",
        "1+0 records in\n1+0 records out\n2+0 records in\n2+0 records out\n",
        "<host> job: (g=0): rw=read\n<host> Starting 1 process\n",
        "* MB/s = 1,000,000 bytes/s\n* KB = 1000 bytes, KiB = 1024 bytes\n",
        "| a | b |\nno line below the headings\n| 1 | 2 |\n",
        "21:00:01 DEV tps\n21:00:02 sda 1.00\n21:00:03 sda 1.00\n",
        "echo a && b; ls & c\n",
    ],
)
def test_what_only_looks_like_marks_stays(text: str) -> None:
    assert pasting.strip_marks(text) == pasting.StrippedText(text)


def test_no_line_comes_or_goes() -> None:
    text = "a\n> b\n>\n>> c\n\n  1: x\n  2: y\n  3:\n  4: z\nfio-1 | a\nfio-1 | b\nfio-1 | c\n<pre>d&#10;e</pre>\n"
    assert pasting.strip_marks(text).text.count("\n") == text.count("\n")


@pytest.mark.parametrize("name", ["fio", "iostat", "pg_test_fsync"])
def test_lines_of_a_mail_that_were_broken_keep_figures_and_options(name: str) -> None:
    command, lines = output(name)
    broken = [part for line in lines for part in textwrap.wrap(line, 72) or [""]]
    whole, mailed = (found("\n".join([f"$ {command}", *every])) for every in (lines, broken))
    assert whole == mailed


def test_a_mail_that_broke_long_lines_keeps_its_marks_off() -> None:
    """Mailers break a quoted line, and do not mark its end."""
    quoted = "> rr: (g=0): rw=read, bs=(R) 4096B-4096B, (W) 4096B-4096B,\n(T) 4096B-4096B, iodepth=1\n> fio-3.19\n"
    stripped = pasting.strip_marks(quoted)
    assert stripped.text == quoted.replace("> ", "")
    answered = "> short\nan answer\n> short\n"
    assert pasting.strip_marks(answered).text == answered


TABLE = """Two disks:
| Device | r/s | w/s | rkB/s | wkB/s | await |
|--------|----:|----:|------:|------:|:-----:|
| `sda` | 10.00 | 0.00 | 40.00 | 0.00 | 1.50 |
| sdb | 20.00 | 0.00 | 80.00 | 0.00 | 2.50 |
"""


def test_a_table_of_markdown_is_read_in_its_lines() -> None:
    result = text_reading.read_text(pasting.strip_marks(TABLE).text).results[0]
    rates = [(m.labels["device"], m.value, m.line) for m in result.metrics if m.name == "read.iops"]
    assert rates == [("sda", 10.0, 4), ("sdb", 20.0, 5)]


def test_lines_of_a_list_are_read_each() -> None:
    shown = pasting.strip_marks(f"- {DD.replace(chr(10), f'{chr(10)}- ')}\n").text
    assert [one.trouble for one in text_reading.read_text(shown).results] == [""]
    rates = "* SSD: read: IOPS=76.8k, BW=300MiB/s (315MB/s)(3000MiB/10001msec)\n* disk: read: IOPS=150\n"
    (one,) = text_reading.read_text(pasting.strip_marks(rates).text).results
    assert one.metrics[0].value == 76_800.0


def test_a_screen_that_was_moved_about_in_keeps_its_words_apart() -> None:
    shown = texts.decode_upload(
        "a.txt", b"\x1b[2J\x1b[1;1HDevice\x1b[3Cr/s\x1b[2;1Hsda\x1b[Kx\r\n"
    ).text
    assert [line.split() for line in shown.split("\n") if line.strip()] == [["Device", "r/s"], ["sdax"]]  # fmt: skip


def test_a_bare_document_is_not_searched_for_marks() -> None:
    """It may have 100 MB. One that was quoted, or has somebody's words behind it, is."""
    document = '{\n  "fio version" : "fio-3.33",\n  "note" : "a | b &gt; c"\n}\n'
    assert pasting.strip_marks(document).text is document
    for marked in (document.replace("\n", "\n> "), f"{document}```\n&gt; thanks\n"):
        assert pasting.strip_marks(marked).text != marked


OWN_NUMBERS = {
    "smartctl": "197 Current_Pending_Sector  0x0012 099 099 000 Old_age Always - {}",
    "mdadm": "{}       8       32        0      active sync   /dev/sdc",
    "diskspd": "     {} |      1234567 |        89 |       0.29 |      75.32 | C:/io.dat (1GiB)",
}


@pytest.mark.parametrize("tool", OWN_NUMBERS)
def test_a_table_keeps_a_column_of_numbers_of_its_own(tool: str) -> None:
    line = OWN_NUMBERS[tool]
    rows = [line.replace("197", str(n)).format(n) for n in (1, 2, 3)]
    assert pasting.strip_marks("\n".join(rows)).text.split("\n") == rows
