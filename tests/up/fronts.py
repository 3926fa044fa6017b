"""The proxies of docs/proxy as programs on this machine: the very files, with ports and paths put in; and curl."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from benchlab.up.ports import free_port
from tests import stack

FILES = Path(__file__).parents[2] / "docs" / "proxy"
NAME = "bench.example.org"
PROGRAMS = ("nginx", "caddy")
LACKING = [program for program in ("curl", *PROGRAMS) if not shutil.which(program)]
# BenchLab's side of it.
SETTINGS = {"ALLOWED_HOSTS": NAME, "BENCHLAB_HTTPS": "1"}
# What a whole nginx has around our part; it must not use the directories of an installed one.
AROUND_NGINX = """
user {user};
daemon off;
pid {place}/pid;
error_log {place}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {place}/body;
    proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/fastcgi;
    uwsgi_temp_path {place}/uwsgi;
    scgi_temp_path {place}/scgi;
    include {place}/benchlab.conf;
}}
"""
AROUND_CADDY = "{{\n\tadmin off\n\thttp_port {http}\n\thttps_port {https}\n}}\n"


@dataclass(frozen=True)
class Answer:
    status: int
    version: str  # of HTTP: "2"
    headers: list[tuple[str, str]]  # names in small letters
    body: bytes

    def all(self, name: str) -> list[str]:
        return [value for known, value in self.headers if known == name]

    def one(self, name: str) -> str:
        (value,) = self.all(name)
        return value

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Front:
    """A proxy that answers at https://NAME:https and http://NAME:http. `place` has its files, and ours."""

    place: Path
    http: int = field(default_factory=free_port)
    https: int = field(default_factory=free_port)
    process: stack.Process | None = None

    @property
    def url(self) -> str:
        return f"https://{NAME}:{self.https}"

    def argv(self, path: str, *words: str, at: str = "127.0.0.1", jar: str = "jar") -> list[str]:
        """curl's words for an address of ours, or a whole one."""
        cookies = str(self.place / jar)
        return ["curl", "-sS", "--cacert", str(self.place / "fullchain.pem"), "--max-time", "120", "-b", cookies,
                "-c", cookies, *(word for port in (self.http, self.https) for word in
                                 ("--resolve", f"{NAME}:{port}:{at}")),
                *words, path if "://" in path else self.url + path]  # fmt: skip

    def ask(self, path: str, *words: str, at: str = "127.0.0.1", jar: str = "jar") -> Answer:
        heads, body = self.place / f"{jar}.heads", self.place / f"{jar}.body"
        body.write_bytes(b"")
        told = ["-D", str(heads), "-o", str(body), "-w", "%{http_code} %{http_version}"]
        argv = self.argv(path, *told, *words, at=at, jar=jar)
        said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        status, version = said.split()
        last = heads.read_text().strip().split("\n\n")[-1].splitlines()[1:]  # not "100 Continue"
        split = (line.partition(":") for line in last)
        headers = [(name.lower(), value.strip()) for name, _, value in split]
        return Answer(int(status), version, headers, body.read_bytes())

    def token(self, path: str, jar: str = "jar") -> str:
        """Of the form there."""
        found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', self.ask(path, jar=jar).text)
        assert found, path
        return found[1]

    def log_in(self, password: str, *words: str, at: str = "127.0.0.1", jar: str = "jar") -> Answer:
        token = self.token("/login/", jar)
        fields = {"login": "alice", "password": password, "csrfmiddlewaretoken": token}
        sent = ["-d", urlencode(fields), "-H", f"Origin: {self.url}", *words]
        return self.ask("/login/", *sent, at=at, jar=jar)


def certificate(place: Path) -> None:
    """A certificate that signs itself, and its key, where the configurations name them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (place / "fullchain.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    kinds = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (place / "privkey.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *kinds))
    ssl.create_default_context(cafile=str(place / "fullchain.pem"))


@contextmanager
def front(program: str, upstream: str, place: Path, *, inner: bool = False) -> Iterator[Front]:
    """It in front of `upstream` (address:port). `inner`: without TLS, itself behind another proxy (nginx alone)."""
    place.mkdir()
    certificate(place)
    made = Front(place)
    text = _put_in((FILES / FILE_OF[program]).read_text(), made, upstream)
    if inner:
        text = _without_tls(text)
    with stack.process(_argv(program, text, made), place / "log", _env(place)) as started:
        made.process = started
        port = made.https
        stack.wait_for(lambda: stack.listens(port, started), place / "log", 30)
        yield made


FILE_OF = {"nginx": "nginx.conf", "caddy": "Caddyfile"}


def _put_in(text: str, made: Front, upstream: str) -> str:
    for old, new in (
        ("127.0.0.1:8000", upstream),
        ("/etc/ssl/benchlab/", f"{made.place}/"),
        ("listen 80;", f"listen 127.0.0.1:{made.http};"),
        ("listen 443 ", f"listen 127.0.0.1:{made.https} "),
        ("listen [::]:80;", f"listen [::1]:{made.http};"),
        ("listen [::]:443 ", f"listen [::1]:{made.https} "),
    ):
        text = text.replace(old, new)
    return text


def _without_tls(text: str) -> str:
    """As the file's own comment says for a proxy behind another one."""
    text = re.sub(r"\n *(ssl_\w+ .*;|listen \[.*)", "", text).replace(" ssl http2", "")
    return text.replace("Proto $scheme", "Proto $http_x_forwarded_proto")


def _argv(program: str, text: str, made: Front) -> list[str]:
    if program == "caddy":
        (made.place / "Caddyfile").write_text(
            AROUND_CADDY.format(http=made.http, https=made.https) + text
        )
        return ["caddy", "run", "--config", f"{made.place}/Caddyfile", "--adapter", "caddyfile"]
    (made.place / "benchlab.conf").write_text(text)
    user = "root" if os.geteuid() == 0 else "nobody"
    around = AROUND_NGINX.format(place=made.place, user=user)
    (made.place / "nginx.conf").write_text(around)
    place = str(made.place)
    return ["nginx", "-p", place, "-e", f"{place}/error.log", "-c", f"{place}/nginx.conf"]


def _env(place: Path) -> dict[str, str]:
    """Caddy keeps what it makes in its home."""
    return {**os.environ, "HOME": str(place), "XDG_DATA_HOME": str(place), "XDG_CONFIG_HOME": str(place)}  # fmt: skip
