"""A practice host's idea of the machine that it runs on."""

from __future__ import annotations

import pytest

from benchlab.practice import machine


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("processor\t: 0\ncpu MHz\t\t: 2596.128\n\nprocessor\t: 1\ncpu MHz\t\t: 1200.000\n", "2596.128"),
        ("processor\t: 0\nBogoMIPS\t: 50\n", ""),
    ],
)  # fmt: skip
def test_the_clock_rate_is_the_first_cpus(tmp_path, text, said):
    (tmp_path / "cpuinfo").write_text(text)
    assert machine.cpu_mhz(tmp_path / "cpuinfo") == said
    assert machine.cpu_mhz(tmp_path / "none") == ""
