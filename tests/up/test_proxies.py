"""BenchLab behind nginx and Caddy, started with the files of docs/proxy, over TLS."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import redis
from django.conf import global_settings
from django.contrib.auth.models import User

from benchlab.audit.models import Entry
from benchlab.imports.models import Draft
from benchlab.runs import artifacts, events
from benchlab.team.models import Membership
from benchlab.up.ports import free_port
from tests import stack
from tests.charts import made
from tests.up.fronts import LACKING, NAME, PROGRAMS, SETTINGS, Front, front

pytestmark = [
    pytest.mark.night,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        bool(LACKING), reason=f"{', '.join(LACKING)} missing: apt-get install nginx caddy curl"
    ),
]
REDIS = stack.redis_url(5)
PASSWORD = "alice-password-8"
FAILED, REFUSED = "are not correct", "Too many failed login attempts"
HERE, THERE = "127.0.0.8", "127.0.0.9"  # two clients
SPOOF = ("-H", "X-Forwarded-For: 198.51.100.7", "-H", "X-Forwarded-Proto: http")
MIB = 2**20


@pytest.fixture
def alice(team, settings) -> User:
    """Who logs in by password: the web server wants a hash as in production."""
    settings.PASSWORD_HASHERS = global_settings.PASSWORD_HASHERS
    person = User.objects.create_user("alice", password=PASSWORD)
    Membership.objects.create(team=team, user=person)
    return person


@pytest.fixture
def counted() -> Iterator[None]:
    """Log-ins, from nought."""
    with redis.Redis.from_url(REDIS) as store:
        store.flushdb()
        yield
        store.flushdb()


@pytest.fixture(scope="module", params=PROGRAMS)
def started(request, django_db_setup, tmp_path_factory) -> Iterator[Front]:
    """One for all tests: each empties the database, not the servers."""
    place = tmp_path_factory.mktemp(request.param)
    with (
        stack.web(place, REDIS, **SETTINGS) as url,
        front(request.param, url.removeprefix("http://"), place / "front") as made_front,
    ):
        yield made_front


@pytest.fixture
def proxy(started, alice, counted) -> Front:
    """Without the cookies of the test before."""
    for jar in started.place.glob("*jar"):
        jar.unlink()
    return started


def logged_in(proxy: Front) -> Front:
    assert proxy.log_in(PASSWORD).status == 302
    return proxy


def test_a_person_logs_in(proxy):
    plain = proxy.ask(f"http://{NAME}:{proxy.http}/login/?next=/")
    assert plain.status in (301, 308)
    assert plain.one("location") == f"https://{NAME}/login/?next=/"
    form = proxy.ask("/login/")
    assert (form.status, form.version) == (200, "2")
    assert form.one("strict-transport-security").startswith("max-age=31536000")
    assert "no-store" in form.one("cache-control")
    entered = proxy.log_in(PASSWORD)
    assert entered.status == 302
    cookies = form.all("set-cookie") + entered.all("set-cookie")
    assert {cookie.partition("=")[0] for cookie in cookies} >= {"csrftoken", "sessionid"}
    assert all("secure" in cookie.lower() for cookie in cookies)
    assert proxy.ask("/").status == 200
    static = proxy.ask("/static/benchlab.css")
    assert static.status == 200 and static.one("strict-transport-security")


def test_the_clients_address_is_the_one_that_the_proxy_saw(proxy):
    tries = [proxy.log_in("wrong", *SPOOF, "--interface", HERE, jar="herejar") for _ in range(7)]
    assert [REFUSED in one.text for one in tries] == [False] * 5 + [True] * 2
    assert proxy.log_in(PASSWORD, *SPOOF, "--interface", THERE, jar="therejar").status == 302
    addresses = Entry.objects.filter(action="login").values_list("address", "outcome")
    assert set(addresses) == {(HERE, "refused"), (THERE, "done")}


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="no IPv6 here")
@pytest.mark.parametrize("started", ["nginx"], indirect=True)
def test_a_client_of_ipv6(proxy):
    assert proxy.log_in(PASSWORD, at="[::1]").status == 302
    assert Entry.objects.get(action="login").address == "::1"


def test_two_proxies_in_a_row(alice, counted, tmp_path):
    with (
        stack.web(tmp_path, REDIS, **SETTINGS, BENCHLAB_PROXIES="2") as url,
        front("nginx", url.removeprefix("http://"), tmp_path / "inner", inner=True) as inner,
        front("nginx", f"127.0.0.1:{inner.https}", tmp_path / "outer") as outer,
    ):
        assert outer.log_in(PASSWORD, *SPOOF, "--interface", THERE).status == 302
        assert outer.ask("/").status == 200
    assert Entry.objects.get(action="login").address == THERE


def peaks(*processes: psutil.Process) -> list[int]:
    """Most memory that each ever had, in bytes."""
    found = []
    for process in processes:
        status = Path(f"/proc/{process.pid}/status").read_text()
        found.append(int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024)
    return found


def test_an_upload_of_100_mb_goes_through_and_takes_no_memory(proxy, tmp_path):
    logged_in(proxy)
    large = tmp_path / "large.bin"
    large.write_bytes(os.urandom(MIB) * 100)
    small = tmp_path / "small.bin"
    small.write_bytes(b"nothing that a tool prints")
    assert proxy.process
    web = next(one for one in psutil.Process().children() if "benchlab.web.server" in one.cmdline())
    there = [web, *(main := psutil.Process(proxy.process.pid)).children(), main]

    def upload(file: Path) -> int:
        form = ("-F", f"files=@{file}", "-F", f"csrfmiddlewaretoken={proxy.token('/import/')}")
        return proxy.ask("/import/", *form, "-H", f"Origin: {proxy.url}").status

    assert upload(small) == 302
    before = peaks(*there)
    assert upload(large) == 302
    grown = [(now - then) / MIB for now, then in zip(peaks(*there), before, strict=True)]
    print(
        f"an upload of 100 MB, {Path(main.exe()).name}: memory of web and proxy grew by {grown} MB"
    )
    assert max(grown) < 32
    drafts = Draft.objects.order_by("pk")
    assert drafts.count() == 2


def test_too_much_is_answered_by_our_own_sentence(proxy, tmp_path):
    logged_in(proxy)
    huge = tmp_path / "huge.bin"
    with huge.open("wb") as file:
        file.truncate(120 * MIB)
    answer = proxy.ask("/import/", "-F", f"files=@{huge}", "-H", f"Origin: {proxy.url}")
    assert answer.status == 413 and "more than 100 MB in one upload" in answer.text


@pytest.mark.parametrize("version", ["--http2", "--http1.1"])
def test_a_live_page_is_told_event_by_event(proxy, team, version):
    """Each is there before the next is sent: a proxy that collects them would show none."""
    campaign = made.campaign(team)
    argv = logged_in(proxy).argv(f"/campaigns/{campaign.pk}/events/", "-N", version)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as stream:
        assert stream.stdout
        lines = iter(stream.stdout.readline, "")

        def until(wanted: str) -> None:
            assert any(line.startswith(wanted) for line in lines)

        try:
            until(": ping")
            for _ in range(3):
                events.notify_pages(campaign.pk)
                until("event: changed")
        finally:
            stream.kill()


def test_downloads_are_whole_and_compressed_once(proxy, team):
    where = made.host(team)
    campaign = made.campaign(team)
    attempts = made.swept(
        campaign, where, made.topology(team, "stripe"), made.workload(team), repeats=20
    )
    raw = os.urandom(MIB) * 24
    artifacts.store_artifacts(attempts[0], {"output": raw})
    artifact = attempts[0].artifacts.get(name="output")
    logged_in(proxy)
    fetched = proxy.ask(f"/artifacts/{artifact.pk}/")
    assert hashlib.sha256(fetched.body).digest() == hashlib.sha256(raw).digest()
    table = proxy.ask(f"/api/results/?campaign={campaign.pk}&format=parquet").body
    assert table[:4] == table[-4:] == b"PAR1"
    lines = proxy.ask(f"/api/results/?campaign={campaign.pk}&format=csv").text.splitlines()
    assert len(lines) > len(attempts)
    for address in (f"/campaigns/{campaign.pk}/", "/static/vendor/plotly/plotly-cartesian.min.js"):
        plain = proxy.ask(address)
        packed = proxy.ask(address, "-H", "Accept-Encoding: gzip")
        assert plain.all("content-encoding") == []
        if packed.all("content-encoding"):
            assert packed.one("content-encoding") == "gzip"
            unpacked = gzip.decompress(packed.body)
            assert len(unpacked) == pytest.approx(len(plain.body), rel=0.01)


def test_our_own_page_tells_what_is_missing(alice, tmp_path):
    """Not the proxy's page of errors, and no sentence of it beside ours."""
    nobody = "redis://127.0.0.1:1/0"
    with (
        stack.web(tmp_path, nobody, **SETTINGS) as url,
        front("nginx", url.removeprefix("http://"), tmp_path / "front") as made_front,
    ):
        answer = made_front.log_in(PASSWORD)
    assert answer.status == 503 and answer.one("retry-after") == "5"
    assert "so nobody can log in" in answer.text


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_restart_of_the_web_server_is_over_when_it_is(program, tmp_path):
    """The proxy answers 502 while there is nobody, and does not go on with it once there is."""
    port = free_port()
    with front(program, f"127.0.0.1:{port}", tmp_path / "front") as before_it:
        for _ in range(2):
            with stack.web_at(port, tmp_path, REDIS, SETTINGS):
                assert before_it.ask("/login/").status == 200
            assert before_it.ask("/login/").status == 502
