"""Connections of strangers who never log in, over real sockets to the real web server: none of them costs it more than
its limits, and none of them keeps others waiting."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import psutil
import pytest

from benchlab.web.connections import Connections, Limits, network_of
from tests import stack

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /login/ HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
MIB = 2**20
PER_ADDRESS = 20
LIMITS = {
    "BENCHLAB_HEADER_BYTES": "16384",
    "BENCHLAB_HEADER_SECONDS": "1",
    "BENCHLAB_BODY_BYTES": str(MIB),
    "BENCHLAB_BODY_SECONDS": "1",
    "BENCHLAB_WRITE_SECONDS": "1",
    "BENCHLAB_CONNECTIONS_PER_ADDRESS": str(PER_ADDRESS),
    "BENCHLAB_PROXIES": "0",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, django_db_setup) -> Iterator[SimpleNamespace]:
    with stack.web(tmp_path_factory.mktemp("web"), stack.redis_url(6), **LIMITS) as url:
        port = urlsplit(url).port
        ours = psutil.Process().children(recursive=True)
        (process,) = [one for one in ours if one.cmdline()[-2:] == ["--port", str(port)]]
        made = SimpleNamespace(port=port, process=process)
        assert answer_seconds(made) < 10  # the first one loads what later ones use
        yield made


def connect(server: SimpleNamespace) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def read_all(link: socket.socket) -> bytes:
    """What the server sends until it closes; an abort ends it, too."""
    answer = b""
    try:
        while more := link.recv(65536):
            answer += more
    except ConnectionError:
        pass
    return answer


def answer_seconds(server: SimpleNamespace) -> float:
    begun = time.monotonic()
    with closing(connect(server)) as link:
        link.sendall(GET + b"Connection: close\r\n\r\n")
        assert read_all(link).startswith(b"HTTP/1.1 200 "), "no answer to /healthz"
    return time.monotonic() - begun


def send_until_refused(link: socket.socket, pieces: Iterator[bytes], most: int) -> int:
    """Send until the server closes; returns the number of bytes that it took."""
    sent = 0
    try:
        while sent < most:
            sent += link.send(next(pieces))
    except ConnectionError:
        pass
    return sent


BLOCK = b"a" * 65536
ENDLESS = {
    "header": (GET + b"X-Long: ", itertools.repeat(BLOCK)),
    "headers": (GET, (b"X-%d: 1\r\n" % n * 3000 for n in itertools.count())),
    "name": (GET, itertools.repeat(BLOCK)),
    "address": (b"GET /", itertools.repeat(BLOCK)),
    "method": (b"", itertools.repeat(b"GET" * 20000)),
    "trailer": (CHUNKED + b"1\r\na\r\n0\r\nX-Long: ", itertools.repeat(BLOCK)),
    "extension": (CHUNKED + b"1;", itertools.repeat(BLOCK)),
    "pipeline": (b"", itertools.repeat((GET + b"\r\n") * 1000)),
    "blank lines": (b"", itertools.repeat(b"\r\n" * 30000)),
    "upgrade": (GET + b"Connection: upgrade\r\nUpgrade: x\r\n\r\n", itertools.repeat(BLOCK)),
    "body": (CHUNKED, itertools.repeat(b"10000\r\n" + BLOCK + b"\r\n")),
    "body in crumbs": (CHUNKED, itertools.repeat(b"1\r\na\r\n" * 5000)),
    "body of a length": (POST + b"Content-Length: 999999999999\r\n\r\n", itertools.repeat(BLOCK)),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_what_does_not_end_is_cut(server, kind):
    begin, pieces = ENDLESS[kind]
    before = server.process.memory_info().rss
    with closing(connect(server)) as link:
        link.settimeout(20)
        link.sendall(begin)
        begun = time.monotonic()
        sent = send_until_refused(link, pieces, 64 * MIB)
        assert sent < 64 * MIB or time.monotonic() - begun < 10
        assert answer_seconds(server) < 2
    # Its own copies of one request, whatever came after.
    assert server.process.memory_info().rss - before < 12 * MIB


@pytest.mark.parametrize(
    ("kind", "status"),
    [("header", b"431"), ("trailer", b"431"), ("body", b"413"), ("body of a length", b"413")],
)
def test_the_answer_names_what_was_too_much(server, kind, status):
    begin, pieces = ENDLESS[kind]
    with closing(connect(server)) as link:
        link.sendall(begin + b"".join(itertools.islice(pieces, 20 if status == b"413" else 1)))
        answer = link.recv(4096)
    assert answer.startswith(b"HTTP/1.1 " + status + b" "), answer
    assert b"100 MB" in answer or b"headers are too long" in answer


HALF_SENT = {
    "silence": b"",
    "header": GET,
    "body": POST + b"Content-Length: 100\r\n\r\nlogin=",
    "chunks": CHUNKED + b"1\r\na\r\n",
    "trailer": CHUNKED + b"0\r\nX-",
    "second header": GET + b"\r\n" + GET,
}


@pytest.mark.parametrize("drips", [False, True])
def test_what_is_half_sent_does_not_stay_open(server, drips):
    begun = time.monotonic()
    with ExitStack() as links:
        opened = {kind: links.enter_context(connect(server)) for kind in HALF_SENT}
        for kind, link in opened.items():
            link.sendall(HALF_SENT[kind])
        # The limit on silence alone would let these stay for ever.
        while drips and time.monotonic() - begun < 1.2:
            for kind, link in opened.items():
                if kind != "silence":
                    send_until_refused(link, itertools.repeat(b"1"), 1)
            time.sleep(0.1)
        answers = {kind: read_all(link) for kind, link in opened.items()}
    assert time.monotonic() - begun < 8
    refused = {kind for kind, answer in answers.items() if b"HTTP/1.1 408 " in answer}
    # The second header's time begins with the first byte after an answer. A byte between chunks is no number.
    others = {"chunks", "silence"} if drips else {"second header"}
    assert refused | others >= set(HALF_SENT), answers


def test_a_person_is_served_while_the_same_address_fills_all_places(server):
    with ExitStack() as links:
        opened = [links.enter_context(connect(server)) for _ in range(4 * PER_ADDRESS)]
        for link in opened:
            send_until_refused(link, iter([GET]), 1)
        assert answer_seconds(server) < 2
        time.sleep(0.2)
        still_open = len([c for c in server.process.net_connections() if c.status == "ESTABLISHED"])
        assert still_open <= PER_ADDRESS + 5  # those to PostgreSQL and Redis stand there, too


def test_who_does_not_read_the_answer_is_cut(server):
    large = max(Path("static").rglob("*.js"), key=lambda path: path.stat().st_size)
    path = f"/{large.as_posix()}".encode()
    with closing(socket.socket()) as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.settimeout(20)
        link.connect(("127.0.0.1", server.port))
        link.sendall((b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n") * 8)
        time.sleep(4)
        received = len(read_all(link))
    assert received < 8 * large.stat().st_size


def test_what_is_whole_is_answered(server):
    """Slow, but whole in time; in small pieces; two at once; a body of nearly all that is allowed."""
    with closing(connect(server)) as link:
        for byte in GET + b"\r\n":
            link.sendall(bytes([byte]))
        assert link.recv(4096).startswith(b"HTTP/1.1 200 ")
        link.sendall((GET + b"\r\n") * 2 + GET + b"Connection: close\r\n\r\n")
        assert read_all(link).count(b"HTTP/1.1 200 ") == 3
    with closing(connect(server)) as link:
        link.sendall(POST + b"Connection: close\r\nContent-Length: 1000000\r\n\r\n" + b"a" * 10**6)
        assert read_all(link).startswith(b"HTTP/1.1 403 ")  # without a token of its form


def test_bodies_of_one_address_have_a_limit_together():
    """However many connections they come by; others have their own, and what was answered counts no more."""
    held = Connections(Limits(bodies_per_address=100))
    assert held.hold_body("192.0.2.7", 60) and not held.hold_body("192.0.2.7", 60)
    assert held.hold_body("192.0.2.8", 60)
    held.hold_body("192.0.2.7", -120)
    assert held.hold_body("192.0.2.7", 100)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "::ffff:192.0.2.7"),
        ("a socket", "a socket"),
    ],
)
def test_an_address_stands_for_its_network(address, network):
    assert network_of(address) == network
