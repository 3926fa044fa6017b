"""Command lines as logs of terminals show them, told by one finder for all readers; and what iostat's flags decide."""

from __future__ import annotations

import pytest

from agents.drivers import text_reading
from agents.readers import _command

OWN = "iostat -dxy 5 2"
SHOWN = [
    ("iostat -dxy 5 2", OWN),
    ("$iostat -dxy 5 2", OWN),
    ("[root@db-172-16-3-150 ~]# iostat -dxy 5 2", OWN),
    ("root@h:/tmp# iostat -dxy 5 2 | tee log", OWN),
    ("user@h:~> iostat -dxy 5 2 > file 2>&1", OWN),
    ("iostat -dxy 5 2 2> errors", OWN),
    ("digoal@db-> iostat -dxy 5 2  # on the standby", OWN),
    ("➜  ~ git:(main) ✗ iostat -dxy 5 2", OWN),
    ("➜  ~ iostat -dxy 5 2", OWN),
    ("+ iostat -dxy 5 2", OWN),
    ("cd /x && iostat -dxy 5 2", OWN),
    ("for i in 1 2; do iostat -dxy 5 2; done", OWN),
    ("`iostat -dxy 5 2`", OWN),
    ("sudo iostat -dxy 5 2", "sudo iostat -dxy 5 2"),
    ("% sudo -u postgres iostat -dxy 5 2", "sudo -u postgres iostat -dxy 5 2"),
    ("LC_ALL=C iostat -dxy 5 2", "LC_ALL=C iostat -dxy 5 2"),
    ("# S_TIME_FORMAT=ISO /usr/bin/iostat -dxy 5 2", "S_TIME_FORMAT=ISO /usr/bin/iostat -dxy 5 2"),
    ("timeout 30 nice -n 5 iostat -dxy 5 2", "timeout 30 nice -n 5 iostat -dxy 5 2"),
    ("nohup iostat -dxy 5 2 &", "nohup iostat -dxy 5 2"),
    ("ssh root@h 'iostat -dxy 5 2'", "ssh root@h 'iostat -dxy 5 2'"),
    ('$ ssh h "iostat -dxy 5 2" | head', 'ssh h "iostat -dxy 5 2"'),
]


@pytest.mark.parametrize(("line", "text"), SHOWN)
def test_a_command_is_seen(line: str, text: str) -> None:
    found = _command.find_command(line, "iostat")
    assert (found.text, " ".join(found.words)) == (text, OWN)
    assert found.flag("y") and not found.flag("z")


@pytest.mark.parametrize(
    "line",
    [
        "I ran iostat -x 1",
        "sudo apt install iostat",
        "the iostat -x output follows",
        "see iostat(1)",
        "my-iostat -x 1",
        "zpool iostat -v 1",
        "iostat-12.1",
        "x" * 3000 + "# iostat -x 1",
    ],
)
def test_what_speaks_of_a_program_is_no_command(line: str) -> None:
    assert not _command.find_command(line, "iostat")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('$ fio --filename="/a;b" --rw=read; echo', ["fio", '--filename="/a;b"', "--rw=read"]),
        ("fio --output=x job.fio && fio other.fio", ["fio", "other.fio"]),
        ("fio-3.33", []),
        ("fio: pid=31, err=5", []),
    ],
)
def test_of_fio(line: str, words: list[str]) -> None:
    assert list(_command.find_command(line, "fio").words) == words


TABLE = """
Device            r/s     rkB/s     w/s     wkB/s   %util
sda            {:.2f}   1200.00    0.00      0.00   40.00
"""
POOL = """
              capacity     operations    bandwidth
pool        alloc   free   read  write   read  write
----------  -----  -----  -----  -----  -----  -----
tank        61.7M   418M    {}      0  1.20M      0
"""


@pytest.mark.parametrize(
    ("prompt", "mean"),
    [
        ("sudo iostat -dxy 5 2", 200.0),
        ("LC_ALL=C iostat -dxy 5 2", 200.0),
        ("➜  ~ sudo iostat -d -x -y 5 2", 200.0),
        ("sudo iostat -dx 5 2", 300.0),
    ],
)
def test_the_first_interval_of_iostat_y_is_one_of_them(prompt: str, mean: float) -> None:
    (one,) = text_reading.read_text(prompt + TABLE.format(100) + TABLE.format(300)).results
    assert one.metrics[0].value == mean
    assert one.series[0].times[0] == 5


@pytest.mark.parametrize(
    ("prompt", "mean"), [("sudo zpool iostat -y 5 2", 200.0), ("sudo zpool iostat 5 2", 300.0)]
)
def test_likewise_of_zpool_iostat(prompt: str, mean: float) -> None:
    (one,) = text_reading.read_text(prompt + POOL.format(100) + POOL.format(300)).results
    assert one.metrics[0].value == mean
    assert one.command == prompt
