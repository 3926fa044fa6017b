"""The template is for copying, so it must work."""

from __future__ import annotations

import pytest

from agents.contracts import Frame, ParseError
from agents.samplers import _template


def test_the_template_reads_its_file():
    frames = [
        Frame(5.0, {"/proc/loadavg": "0.50 0.40 0.30 1/99 77\n"}),
        Frame(6.0, {"/proc/loadavg": "1.50 0.40 0.30 1/99 78\n"}),
    ]
    (load,) = _template.frames_to_series(frames)
    assert (load.times, load.values) == ((0.0, 1.0), (0.5, 1.5))


@pytest.mark.parametrize("said", ["", "\n", "who knows\n"])
def test_the_template_refuses_what_makes_no_sense(said):
    with pytest.raises(ParseError, match="loadavg"):
        _template.frames_to_series([Frame(5.0, {"/proc/loadavg": said})])
