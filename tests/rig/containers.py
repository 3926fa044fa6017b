"""The shipped image and Compose file, built and started for real: Buildah and Podman, and Debian 13's Compose.

No registry of images is asked: Debian's Python, PostgreSQL, Valkey and nginx stand in for the official ones. What takes
minutes is kept in the cache: Podman's storage, and in it the layers of an image whose files did not change.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from benchlab.practice.machine import mirror, require_tools
from benchlab.practice.paths import cache_root

ROOT = Path(__file__).parents[2]
STAND_INS = Path(__file__).parent / "compose"
PACKAGES = (
    *("python3", "python3-pip", "python3-venv", "ca-certificates"),
    *("postgresql", "valkey-server", "valkey-tools", "docker-compose"),
    *("nginx", "gettext-base", "curl", "openssh-server", "fio"),
)
# Programs that this machine needs, and the Debian packages that have them.
TOOLS = {name: name for name in ("buildah", "podman", "runc", "mmdebstrap")}
IMAGES = {
    "python": "python:3.13-slim",
    "postgres": "postgres:18",
    "valkey": "valkey/valkey:9",
    "nginx": "nginx:stable",
    "host": "benchlab-test-host",
}
COMPOSE = "usr/libexec/docker/cli-plugins/docker-compose"
# runc, for crun wants control groups of one version; limits that any machine may set.
CONFIG = """
[containers]
default_ulimits = ["nofile=8192:8192", "nproc=8192:8192"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
compat_api_enforce_docker_hub = false
[network]
network_config_dir = "{work}/networks"
"""
# Podman keeps the first one's path for good, and what pytest gives a test is removed by a later run of pytest.
STORAGE = '[storage]\ndriver = "overlay"\ngraphroot = "{cache}/storage"\nrunroot = "{cache}/run"\n'


@dataclass(frozen=True)
class Engine:
    """Podman with a storage of its own, and its socket, which Compose speaks to."""

    cache: Path
    work: Path

    @property
    def env(self) -> dict[str, str]:
        return {
            **os.environ,
            "BUILDAH_ISOLATION": "chroot",
            "CONTAINERS_CONF": str(self.work / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.work / "storage.conf"),
            "DOCKER_HOST": f"unix://{self.work}/podman.sock",
        }

    def run(self, *argv: str, env: Mapping[str, str] | None = None) -> str:
        """What it printed. AssertionError with the end of it where it failed."""
        done = subprocess.run(
            argv,
            env=self.env | dict(env or {}),
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        said = done.stdout + done.stderr
        assert not done.returncode, f"{' '.join(argv[:6])}: {said[-3000:]}"
        return done.stdout

    def compose_argv(self, *words: str) -> tuple[str, ...]:
        file = str(ROOT / "docker-compose.yml")
        return (str(self.cache / COMPOSE), "-f", file, "-p", "benchlab-test", *words)

    def compose(self, env: Mapping[str, str], *words: str) -> str:
        return self.run(*self.compose_argv(*words), env=env)

    def up(self, env: Mapping[str, str], *words: str) -> None:
        """Again where Compose read a health status while Podman 4.3 wrote it: it was empty."""
        argv = self.compose_argv("up", "--detach", "--no-build", *words)
        for _ in range(3):
            done = subprocess.run(
                argv,
                env=self.env | dict(env),
                capture_output=True,
                text=True,
                check=False,
                timeout=900,
            )
            if not done.returncode:
                return
            assert 'unexpected health status ""' in done.stderr, done.stderr[-3000:]
        raise AssertionError(done.stderr[-3000:])

    def healthy(self, container: str) -> bool:
        said = self.run("podman", "inspect", container, "--format", "{{.State.Health.Status}}")
        return said.strip() == "healthy"

    def build(self, tag: str, context: Path, *words: str) -> None:
        certificates = "/etc/ssl/certs:/etc/ssl/certs:ro"
        argv = (
            "buildah",
            "bud",
            "--layers",
            "--network",
            "host",
            "--pull=never",
            "--format",
            "docker",
        )
        self.run(*argv, "-v", certificates, "-t", tag, *words, str(context))

    def clear(self) -> None:
        self.run("podman", "rm", "--all", "--force", "--volumes")
        self.run("podman", "volume", "prune", "--force")

    def stand_ins(self) -> None:
        """Images of Debian's packages under the names of the official ones; made again where our files changed."""
        files = sorted(path for path in STAND_INS.iterdir() if path.is_file())
        made_of = repr([PACKAGES, *(path.read_bytes() for path in files)]).encode()
        kept, wanted = self.cache / "stand-ins", hashlib.sha256(made_of).hexdigest()
        # In front of a name is localhost, or the registry that the machine's short names stand for.
        there = self.run("podman", "images", "--format", "/{{.Repository}}:{{.Tag}}").split()
        named = all(any(f"/{name}" in one for one in there) for name in IMAGES.values())
        if named and kept.exists() and kept.read_text() == wanted:
            return
        context = self.cache / "context"
        shutil.copytree(STAND_INS, context, dirs_exist_ok=True)
        tar = context / "debian.tar"
        argv = ("mmdebstrap", "--quiet", "--variant=minbase", "--mode=root")
        self.run(*argv, f"--include={','.join(PACKAGES)}", "trixie", str(tar), mirror())
        self.run("tar", "xf", str(tar), "-C", str(self.cache), f"./{COMPOSE}")
        for target, name in IMAGES.items():
            self.build(name, context, "--target", target)
        tar.unlink()
        kept.write_text(wanted)

    def look_after(self, ended: Event) -> None:
        """Run health checks until they pass, as systemd's timers would, and tell of containers that ended.

        This machine may have no systemd; and what Podman 4.3 starts at a container's end does not find our storage.
        """
        while not ended.wait(0.5):
            healthy = self._quietly("ps", "-q", "--filter", "health=healthy").split()
            for name in set(self._quietly("ps", "-q").split()) - set(healthy):
                self._quietly("healthcheck", "run", name)
            for name in self._quietly(
                "ps", "-aq", "--filter", "status=exited", "--filter", "status=stopped"
            ).split():
                self._quietly("container", "cleanup", name)

    def _quietly(self, *words: str) -> str:
        """A container that ends meanwhile is no failure, and must not end the thread."""
        argv = ("podman", *words)
        return subprocess.run(
            argv, env=self.env, capture_output=True, text=True, check=False
        ).stdout


@contextmanager
def images(work: Path) -> Iterator[Engine]:
    """Podman with our image, without containers at begin and end. One at a time uses the cache."""
    cache = cache_root() / "containers"
    cache.mkdir(parents=True, exist_ok=True)
    require_tools(print, TOOLS)
    made = Engine(cache, work)
    (work / "containers.conf").write_text(CONFIG.format(work=work))
    (work / "storage.conf").write_text(STORAGE.format(cache=cache, work=work))
    (work / "networks").mkdir()
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made.clear()
        # It has nothing in it now but the run root of who made it, a directory of a test that pytest has removed since.
        (cache / "storage/libpod/bolt_state.db").unlink(missing_ok=True)
        made.stand_ins()
        # Before anything else uses the storage: Buildah 1.28 loses a stage's files when Podman looks at it meanwhile.
        made.build("benchlab", ROOT)
        try:
            yield made
        finally:
            made.clear()


@contextmanager
def engine(work: Path) -> Iterator[Engine]:
    """And Podman's service, which Compose speaks to."""
    with images(work) as made:
        argv = ("podman", "system", "service", "--time=0", f"unix://{work}/podman.sock")
        service = subprocess.Popen(argv, env=made.env, stderr=subprocess.DEVNULL)
        ended = Event()
        helper = Thread(target=made.look_after, args=(ended,))
        helper.start()
        try:
            wait_until((work / "podman.sock").exists, 30, lambda: "podman's service did not start")
            yield made
        finally:
            ended.set()
            helper.join()
            made.clear()
            made.run("podman", "network", "prune", "--force")
            service.terminate()
            service.wait()


def wait_until(met: Callable[[], bool], seconds: float, said: Callable[[], str]) -> None:
    """Raises AssertionError with what `said` tells once the time is over."""
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, said()
        time.sleep(0.3)
