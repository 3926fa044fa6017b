"""Addresses besides 127.0.0.1 at which BenchLab listens and finds its stores: of IPv6, and Unix sockets."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.exceptions import ValidationError
from django.test import Client
from kombu import Connection

from benchlab import env
from benchlab.audit.models import Entry
from benchlab.dynamo.listening import Listener
from benchlab.hosts.forms import validate_address
from benchlab.up import ports, store_programs, supervised, supervisor, valkey
from benchlab.up.trouble import Trouble
from benchlab.web import listening
from benchlab.web.connections import network_of
from tests import stack


def has_ipv6() -> bool:
    return ports.why_not("::1", 0) is None


ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")


@contextmanager
def web(place: Path, host: str, **more: str) -> Iterator[supervisor.Wish]:
    """The web server, listening there."""
    wish = supervisor.Wish(host, ports.free_port(), campaign=False)
    argv = supervised.web(wish.host, wish.port, {}).argv
    given = {**stack.environment(stack.redis_url(9)), **more}
    with stack.process([str(word) for word in argv], place / "web.log", given) as started:
        stack.wait_for(
            lambda: started.poll() is not None or supervisor.http_status(wish) > 0,
            place / "web.log",
            60,
        )
        yield wish
        if started.poll() is None:
            started.send_signal(signal.SIGTERM)
            started.wait(30)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("::1", "http://[::1]:8000/"),
        ("::", "http://[::1]:8000/"),
        ("2001:db8::7", "http://[2001:db8::7]:8000/"),
        ("fe80::1%eth0", "http://[fe80::1%25eth0]:8000/"),
        ("unix:/run/lab.sock", "unix:/run/lab.sock"),
    ],
)
def test_the_address_is_printed_as_a_browser_takes_it(host, url):
    assert supervised.page_url(host, 8000) == url


def test_pages_may_be_asked_for_by_ipv6_addresses():
    assert "[2001:db8::7]" in supervised.names_of("2001:db8::7")
    own = [name for name in supervised.names_of("::") if name.startswith("[")]
    assert "[::1]" in own and not [name for name in own if "%" in name]
    os.environ["BENCHLAB_TEST_NAMES"] = ",".join(supervised.names_of("::"))
    try:
        assert env.host_names("BENCHLAB_TEST_NAMES", "") == supervised.names_of("::")
    finally:
        del os.environ["BENCHLAB_TEST_NAMES"]


@ipv6
@pytest.mark.night
@pytest.mark.django_db(transaction=True)
def test_every_address_is_one_of_either_family(tmp_path):
    with web(tmp_path, "::") as wish:
        for name in ("[::1]", "127.0.0.1"):
            said = urllib.request.urlopen(f"http://{name}:{wish.port}/healthz").read()
            assert said == b"ok\n"
            with urllib.request.urlopen(f"http://{name}:{wish.port}/login/") as page:
                assert page.status == 200
        with pytest.raises(Trouble, match=rf"Port {wish.port} on :: is busy"):
            ports.require_port("::", wish.port)


@ipv6
def test_a_port_that_ipv4_has_taken_is_not_free_for_every_address():
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(Trouble, match="is busy"):
        ports.require_port("::", server.getsockname()[1])


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_proxy_beside_it_reaches_a_unix_socket(tmp_path, user):
    path = tmp_path / "web.sock"
    with web(tmp_path, f"unix:{path}", BENCHLAB_PROXIES="1") as wish:
        assert supervisor.http_status(wish) == 200
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        with pytest.raises(Trouble, match="another server listens there"):
            ports.require_port(wish.host, wish.port)
        log_in(path, "2001:db8::5")
    assert not path.exists()
    assert Entry.objects.latest("pk").address == "2001:db8::5"


def log_in(path: Path, address: str) -> None:
    """A wrong password, as a proxy hands it on for that client."""
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(path))
    connection.request("GET", "/login/", headers={"X-Forwarded-For": address})
    page = connection.getresponse()
    cookie = page.headers["Set-Cookie"].partition(";")[0]
    token = (
        page.read().decode().partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]
    )
    connection.request(
        "POST", "/login/", f"csrfmiddlewaretoken={token}&login=ada&password=wrong",
        {"Cookie": cookie, "X-Forwarded-For": address, "Content-Type": "application/x-www-form-urlencoded"},
    )  # fmt: skip
    assert connection.getresponse().status == 200
    connection.close()


def test_a_unix_socket_needs_a_proxy_that_tells_of_clients(tmp_path):
    given = {**os.environ, "BENCHLAB_PROXIES": "0"}
    argv = [sys.executable, "-m", "benchlab.web.server", "--host", f"unix:{tmp_path}/s"]
    done = subprocess.run(argv, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "BENCHLAB_PROXIES" in done.stderr


def test_what_a_killed_server_left_is_replaced_and_nothing_else(tmp_path):
    path = tmp_path / "s"
    listening.unix_socket(path).close()
    assert path.is_socket()
    with listening.unix_socket(path), pytest.raises(OSError, match="another server listens"):
        listening.unix_socket(path)
    other = tmp_path / "kept"
    other.write_text("of somebody")
    with pytest.raises(OSError, match="no socket"):
        listening.unix_socket(other)
    assert other.read_text() == "of somebody"


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.1"),
    ],
)
def test_a_customer_of_ipv6_is_one_client(address, counted):
    assert network_of(address) == counted


@pytest.mark.django_db
@pytest.mark.parametrize("told", ["directly", "by a proxy"])
@pytest.mark.parametrize("address", ["2001:db8::5", "fe80::5%eth0"])
def test_people_log_in_from_ipv6_addresses(user, settings, told, address):
    """Also from a link-local one, with the zone that names an interface here."""
    user.set_password("right-enough")
    user.save()
    where = {"REMOTE_ADDR": address}
    if told == "by a proxy":
        settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
        where = {"REMOTE_ADDR": "", "HTTP_X_FORWARDED_FOR": address}
    given = {"login": user.username, "password": "right-enough"}
    answer = Client().post("/login/", given, **where)
    assert answer.status_code == 302
    assert Entry.objects.latest("pk").address == address


def test_hosts_have_ipv6_addresses():
    for typed in ("2001:db8::7", "::1", "fe80::1%eth0", "::ffff:192.0.2.1"):
        validate_address(typed)
    with pytest.raises(ValidationError, match="without brackets"):
        validate_address("[2001:db8::7]")


@ipv6
@pytest.mark.django_db
def test_dynamos_of_ipv6_are_listened_for(team):
    listener = Listener("[::1]:0", ["::1"], "")
    thread = threading.Thread(target=listener.serve_dynamos)
    thread.start()
    with socket.create_connection(("::1", listener.port)) as stream:
        stream.sendall(b"\0")  # a stranger would have been cut off
    listener.request_stop()
    thread.join(20)
    assert not thread.is_alive()


@ipv6
def test_stores_are_reached_by_ipv6(tmp_path):
    port = ports.free_port()
    text = valkey.config(tmp_path, port, "pass").replace(f"bind {ports.LOOPBACK}", "bind ::1")
    with subprocess.Popen([store_programs.redis_program(), "-"], stdin=subprocess.PIPE) as server:
        assert server.stdin
        server.stdin.write(text.encode())
        server.stdin.close()
        url = env.redis(f"redis://:pass@[::1]:{port}/3")
        stack.wait_for(lambda: not answers(url), tmp_path / "none", 20)
        server.terminate()
    assert env.database("postgresql://a@[::1]:5433/b")["HOST"] == "::1"


def test_redis_is_reached_by_a_unix_socket(tmp_path, monkeypatch):
    """By our own client and by Celery's, each with its password and in its numbered database."""
    path = tmp_path / "valkey.sock"
    text = valkey.config(tmp_path, 0, "p/w@r:d") + f"unixsocket {path}\n"
    monkeypatch.setenv("REDIS_PASSWORD", "p/w@r:d")
    url = env.redis(f"unix://{path}?db=3")
    with subprocess.Popen([store_programs.redis_program(), "-"], stdin=subprocess.PIPE) as server:
        assert server.stdin
        server.stdin.write(text.encode())
        server.stdin.close()
        stack.wait_for(lambda: not answers(url), tmp_path / "none", 20)
        redis.Redis.from_url(url).set("mark", "3")
        with Connection(env.broker(url)) as celerys:
            channel: Any = celerys.default_channel
            assert channel.client.get("mark") == b"3"
        server.terminate()


def answers(url: str) -> str:
    try:
        redis.Redis.from_url(url).ping()
    except redis.RedisError as error:
        return str(error)
    return ""
