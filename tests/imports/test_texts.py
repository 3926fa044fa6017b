"""Bytes to text: right, or refused with the place; nothing guessed without saying so."""

from __future__ import annotations

import time

import pytest

from benchlab.imports.texts import NotText, decode_upload


@pytest.mark.parametrize(
    "raw",
    [
        "é 1\nb\n".encode(), b"\xef\xbb\xbf" + "é 1\nb\n".encode(), "é 1\nb\n".encode("utf-16"),
        b"\xfe\xff" + "é 1\nb\n".encode("utf-16-be"), "é 1\r\nb\r\n".encode(), "é 1\rb\r".encode(),
    ],
)  # fmt: skip
def test_the_same_text_in_every_dress(raw):
    assert decode_upload("a.txt", raw).text == "é 1\nb\n"
    assert decode_upload("a.txt", raw).notes == ()


def test_what_is_no_utf8_is_read_and_said():
    found = decode_upload("a.txt", "ok\nTemp: 20°\n".encode("latin-1"))
    assert found.text == "ok\nTemp: 20°\n"
    assert "line 2" in found.notes[0] and "Latin-1" in found.notes[0]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "empty"), (b" \n\t\n", "white space"), (b"ab\nc\0d", r"NUL.* line 2"), (b"\x89PNG\r\n\x1a\n\0\0", "NUL"),
        (bytes(range(1, 256)) * 4, "binary"), (b"\xff\xfe\x00\xd8x\x00", "byte 3"), ("a\0b".encode("utf-16"), "NUL"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused(raw, said):
    with pytest.raises(NotText, match=said):
        decode_upload("a.bin", raw)


def test_colours_of_a_terminal_go():
    found = decode_upload("log", b"\x1b]0;title\x07\x1b[1;32m$\x1b[0m dd\x1b[K\n1 MB\n")
    assert found.text == "$ dd\n1 MB\n" and "Colours" in found.notes[0]


PAGE = """<!DOCTYPE html><html><head><title>t</title><script>var a = "<pre>IOPS=1</pre>";</script>
<style>pre { x: y }</style></head><body onload="evil()"><h1>Post</h1><p>I ran  it
again:</p><pre>open_datasync   100 ops/sec
fsync &lt;b&gt; &amp;   20&nbsp;ops/sec</pre>one<br>two<br/>three
<table><tr><td>a</td><td>1</td></tr><tr><td>b</td><td>2</td></tr></table>
<script>alert(1)</script><div>end<!-- no <b>comment</b> --></div></body></html>"""


def test_a_web_page_is_the_text_one_sees():
    found = decode_upload("post.html", PAGE.encode())
    lines = [line for line in found.text.split("\n") if line]
    assert lines == [
        "Post", "I ran it again:", "open_datasync   100 ops/sec", "fsync <b> &   20 ops/sec", "one", "two",
        "three", "a\t1", "b\t2", "end",
    ]  # fmt: skip
    assert "web page" in found.notes[0]


def test_a_page_in_another_encoding():
    raw = '<html><meta charset="gb2312"><p>测试 100</p></html>'.encode("gb2312")
    assert "测试 100" in decode_upload("a.html", raw).text
    odd = '<html><meta charset="unicode_escape"><p>\xe9</p>'.encode("latin-1")
    assert "é" in decode_upload("a.html", odd).text


@pytest.mark.parametrize(
    "piece",
    ["<", "<a ", "<!--", "</", "<pre>", "&", "&#", "<![CDATA[", "<script>", "<?x ", "<a b='", "<svg><head>", "<td>",
     "&#x0;", "<a b='>", '<a b="', "<a/", "</a ", "<textarea>"],
)  # fmt: skip
def test_hostile_pages_are_quick_and_end(piece):
    started = time.process_time()
    decode_upload("a.html", ("<html><body>" + piece * 60_000).encode())
    assert time.process_time() - started < 5


def test_a_line_of_a_hundred_megabytes():
    started = time.process_time()
    found = decode_upload("a.txt", b"x" * 100_000_000)
    assert len(found.text) == 100_000_000
    assert time.process_time() - started < 3
