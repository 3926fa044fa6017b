"""A page of an output is what the whole of it, decoded and split, has there."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from benchlab.charts import numbered_lines

PIECES = st.sampled_from([b"\n", b"\r\n", b"\r", b"ab", b"\xff", "é".encode(), b"\xc3"])


def whole(raw: bytes) -> list[str]:
    text = raw.decode("utf-8", "replace").replace("\r\n", "\n")
    found = text.split("\n")
    return found[:-1] if len(found) > 1 and found[-1] == "" else found


@given(st.lists(PIECES, max_size=40), st.integers(0, 30), st.integers(1, 4))
def test_a_page_is_cut_out_of_the_bytes(pieces: list[bytes], line: int, per_page: int) -> None:
    raw = b"".join(pieces)
    with (
        patch.object(numbered_lines, "LINES_PER_PAGE", per_page),
        patch.object(numbered_lines, "MAX_LINE_LETTERS", 3),
    ):
        found = numbered_lines.read_page(raw, line)
        expected = whole(raw)
        number = (min(max(line, 1), len(expected)) - 1) // per_page
        assert found.total == len(expected)
        assert [(row.number, row.text, row.more) for row in found.rows] == [
            (at + 1, expected[at][:3], max(0, len(expected[at]) - 3))
            for at in range(number * per_page, min((number + 1) * per_page, len(expected)))
        ]


def test_a_line_of_the_last_page() -> None:
    raw = b"".join(b"%d\n" % number for number in range(1, 100_001))
    found = numbered_lines.read_page(raw, 99_999)
    assert (found.rows[0].text, found.rows[-1].text, found.next) == ("99001", "100000", None)
