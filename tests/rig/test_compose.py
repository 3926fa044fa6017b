"""The stack that docker-compose.yml ships: it starts, is scaled, measures while parts of it end, and answers."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.cookies import SimpleCookie
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlencode

import pytest

from benchlab.up.ports import free_port
from tests.rig.containers import Engine, engine, wait_until

SECRETS = {
    "POSTGRES_PASSWORD": "p/w@r:d %41",
    "REDIS_PASSWORD": "r3dis",
    "SECRET_KEY": "s" * 50,
    "BENCHLAB_KEY": "HLE5Fz3zfV55S1aEDHBv9p7cVo3cvBAsTPUF0fUG-sE=",
}


HOST = "bench.example.test"
RUNS = 24  # of five seconds: as long as it takes to restart all
SCALE = ("--scale", "web=2", "--scale", "worker=3")
LACKING = [
    program for program in ("buildah", "podman", "runc", "iptables") if not shutil.which(program)
]
pytestmark = [
    pytest.mark.night,
    pytest.mark.skipif(
        bool(LACKING),
        reason=f"{', '.join(LACKING)} missing: "
        "apt-get install buildah podman runc netavark aardvark-dns iptables",
    ),
]


@dataclass
class Stack:
    """All services at work, and a browser's cookies."""

    podman: Engine
    env: dict[str, str]
    cookies: SimpleCookie = field(default_factory=SimpleCookie)

    @property
    def port(self) -> int:
        return int(self.env["BENCHLAB_PORT"])

    @property
    def cookie(self) -> str:
        return "; ".join(f"{name}={one.coded_value}" for name, one in self.cookies.items())

    def ask(
        self, path: str, host: str = HOST, form: dict[str, str] | None = None
    ) -> tuple[int, str]:
        """Status and body, with cookies as a browser has them; 0 where nobody answers."""
        headers = {"Host": host, "Cookie": self.cookie}
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            headers["Origin"] = f"http://{host}"
            # What the browser says of itself must not count.
            headers["X-Forwarded-For"] = "203.0.113.9"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            if form is None:
                connection.request("GET", path, headers=headers)
            else:
                connection.request("POST", path, urlencode(form), headers)
            answer = connection.getresponse()
            for cookie in answer.headers.get_all("Set-Cookie", ()):
                self.cookies.load(cookie)
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()

    def name(self, service: str, number: int = 1) -> str:
        return f"benchlab-test-{service}-{number}"

    def logs(self) -> str:
        return self.podman.compose(self.env, "logs", "--tail", "20")

    def until(self, met: Callable[[], bool], seconds: float) -> None:
        wait_until(met, seconds, self.logs)

    def rows(self, query: str) -> list[str]:
        """PostgreSQL's answer, a row a line, columns between bars."""
        argv = ("podman", "exec", self.name("postgres"), "psql", "-h", "/run/postgresql")
        return self.podman.run(*argv, "-U", "benchlab", "-tAc", query).split()

    def ended(self, container: str) -> int:
        """Exit code."""
        return int(
            self.podman.run("podman", "inspect", container, "--format", "{{.State.ExitCode}}")
        )


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    env = {**SECRETS, "BENCHLAB_PORT": str(free_port()), "ALLOWED_HOSTS": HOST}
    with engine(tmp_path_factory.mktemp("engine")) as podman:
        try:
            podman.up(env, *SCALE)
            yield Stack(podman, env)
        finally:
            podman.run("podman", "rm", "--force", "--ignore", "benchlab-test-host")
            podman.compose(env, "down", "--volumes")


def test_it_starts_at_the_first_try(stack: Stack) -> None:
    stack.until(lambda: stack.ask("/readyz", "10.0.0.7")[0] == 200, 60)
    status, page = stack.ask("/login/")
    assert status == 200 and (found := re.search(r'href="(/static/[^"]+\.css)"', page))
    assert stack.ask(found[1])[0] == 200
    names = [stack.name("web", n) for n in (1, 2)] + [stack.name("worker", n) for n in (1, 2, 3)]
    for name in (*names, stack.name("beat"), stack.name("proxy")):
        stack.until(partial(stack.podman.healthy, name), 180)


def log_in(stack: Stack) -> None:
    """As the administrator, by the form."""
    said = stack.podman.compose(stack.env, "logs", "migrate")
    password = re.search(r"Log in as  admin  with password  (\S+)", said)
    _, page = stack.ask("/login/")
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    assert password and token
    form = {"csrfmiddlewaretoken": token[1], "login": "admin", "password": password[1]}
    assert stack.ask("/login/", form=form)[0] == 302


def test_the_audit_log_has_the_browsers_address(stack: Stack) -> None:
    """Seen from the containers that is the network's gateway: we are on the host."""
    log_in(stack)
    address = stack.rows("SELECT address FROM audit_entry WHERE action = 'login'")
    gateway = "{{range .NetworkSettings.Networks}}{{.Gateway}}{{end}}"
    known = stack.podman.run("podman", "inspect", stack.name("proxy"), "--format", gateway)
    assert address == [known.strip()]


def begin_campaign(stack: Stack, keys: Path) -> int:
    """In a directory of a container that only has an SSH server; its number."""
    podman, name = stack.podman, "benchlab-test-host"
    podman.run("podman", "run", "-d", "--network", "benchlab-test_default", "--name", name, name)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys], check=True)
    podman.run("podman", "cp", f"{keys}.pub", f"{name}:/root/.ssh/authorized_keys")
    podman.run("podman", "exec", name, "chown", "root:root", "/root/.ssh/authorized_keys")
    public = podman.run("podman", "exec", name, "cat", "/etc/ssh/ssh_host_ed25519_key.pub")
    where = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    address = podman.run("podman", "inspect", name, "--format", where).strip()
    code = Path(__file__).with_name("make_campaign.py").read_text()
    known = " ".join(public.split()[:2])
    argv = ("podman", "exec", stack.name("web"), "python", "-c", code, str(RUNS), address, known)
    return int(podman.run(*argv, keys.read_text()))


def listen(stack: Stack, campaign: int, over: Event, heard: list[str]) -> None:
    """As a browser: connects again when a stream of events ends, whether politely or not."""
    while not over.wait(0.5):
        connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=30)
        try:
            path = f"/campaigns/{campaign}/events/"
            connection.request("GET", path, headers={"Host": HOST, "Cookie": stack.cookie})
            answer = connection.getresponse()
            heard.append(f"status {answer.status}")
            while (line := answer.readline()) and not over.is_set():
                heard.append(line.decode().strip())
        except (OSError, http.client.HTTPException) as error:
            heard.append(f"cut: {type(error).__name__}")
        finally:
            connection.close()


def test_a_campaign_outlives_servers_and_workers(stack: Stack, tmp_path: Path) -> None:
    """One of each is killed, and those that are left are restarted one after the other, as an upgrade would."""
    campaign = begin_campaign(stack, tmp_path / "key")
    ours = f"FROM runs_attempt a JOIN campaigns_run r ON r.id = a.run_id WHERE r.campaign_id = {campaign}"
    done = f"SELECT count(*) {ours} AND a.phase = 'done'"
    heard: list[str] = []
    over = Event()
    browser = Thread(target=listen, args=(stack, campaign, over, heard))
    browser.start()
    try:
        stack.until(lambda: stack.rows(done) != ["0"], 120)
        for service in ("web", "worker"):
            stack.podman.run("podman", "kill", "--signal", "KILL", stack.name(service))
        stack.until(lambda: stack.ask(f"/campaigns/{campaign}/")[0] == 200, 10)
        for service, number in (("worker", 2), ("worker", 3)):
            stack.podman.run("podman", "stop", "--time", "30", stack.name(service, number))
            assert stack.ended(stack.name(service, number)) == 0
            if number == 2:
                stack.podman.up(stack.env, *SCALE)
        stack.podman.up(stack.env, *SCALE)
        stack.until(partial(stack.podman.healthy, stack.name("web", 1)), 180)
        mark = len(heard)
        stack.podman.run("podman", "stop", "--time", "30", stack.name("web", 2))
        assert stack.ended(stack.name("web", 2)) == 0
        stack.until(lambda: stack.ask(f"/campaigns/{campaign}/")[0] == 200, 10)
        stack.until(lambda: "event: changed" in heard[mark:], 60)
        over_with = "SELECT outcome FROM runs_layout WHERE phase = 'done' AND campaign_id = "
        stack.until(lambda: stack.rows(f"{over_with}{campaign}") == ["succeeded"], 600)
    finally:
        over.set()
        browser.join()
    assert stack.rows(f"SELECT a.outcome {ours}") == ["succeeded"] * RUNS
    assert stack.rows(f"SELECT count(DISTINCT a.run_id) {ours}") == [str(RUNS)]


def test_it_says_so_when_the_database_is_away(stack: Stack) -> None:
    stack.podman.up(stack.env, *SCALE)
    stack.until(lambda: stack.ask("/readyz")[0] == 200, 120)
    stack.podman.compose(stack.env, "stop", "postgres")
    began = time.monotonic()
    status, told = stack.ask("/readyz")
    assert status == 503 and json.loads(told)["database"].startswith("no connection")
    assert stack.ask("/healthz")[0] == 200
    assert time.monotonic() - began < 5  # the pool's patience is ten seconds, of each
    stack.podman.compose(stack.env, "start", "postgres")
    stack.until(lambda: stack.ask("/readyz")[0] == 200, 60)


def test_a_backup_goes_into_a_new_stack(stack: Stack, tmp_path: Path) -> None:
    """By the commands of docs/operating.md."""
    compose = partial(stack.podman.compose, stack.env)
    manage = partial(compose, "exec", "-T", "web", "python", "manage.py")
    place, kept = "/var/lib/benchlab/kept", tmp_path / "kept"
    counted = "SELECT count(*), sum(length(sha256)) FROM runs_artifact"
    before = stack.rows(counted)
    manage("backup", place)
    compose("cp", f"web:{place}", str(kept))
    for path in (kept, *kept.iterdir()):
        os.chown(path, 10001, -1)
    compose("down", "--volumes")
    restore = ("migrate", "python", "manage.py", "restore", "/kept")
    compose("run", "--rm", "-T", "-v", f"{kept}:/kept:ro", *restore)
    stack.podman.up(stack.env)
    stack.until(lambda: stack.ask("/readyz")[0] == 200, 120)
    assert stack.rows(counted) == before
    assert "No damage found." in manage("doctor")
    manage("reparse")
    assert stack.rows(counted) == before
