"""Packages onto a host, over our own SSH server; the package manager is a script first in the PATH of the command."""

from __future__ import annotations

import time

import pytest
from django.urls import reverse
from django.utils import timezone

from agents.contracts import Need
from agents.drivers import packages
from benchlab.hosts import discovery, models, package_installs
from benchlab.hosts.models import PackageInstall
from tests.runs import local_host

pytestmark = pytest.mark.django_db(transaction=True)

PROGRAM = "benchlab-imaginary"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with local_host.served(tmp_path_factory.mktemp("state")) as found:
        yield found


@pytest.fixture
def make(server, team, tmp_path, monkeypatch):
    """This machine, which lacks one program; its installer is a script of the test's."""
    tmp_path.chmod(0o755)
    there = tmp_path / PROGRAM
    installer = tmp_path / "apt-get"
    need = Need(PROGRAM, {"debian": PROGRAM}, (str(there), "--version"))
    monkeypatch.setattr(discovery, "required_programs", lambda: (need,))
    monkeypatch.setitem(packages.INSTALLERS, "debian", (str(installer), "install", "-y"))
    host = local_host.register(team, *server)

    def build(script: str):
        installer.write_text(f"#!/bin/sh\nthere={there}\n{script}\n")
        installer.chmod(0o755)
        discovery.read_facts(host)
        return host

    return build


INSTALLS = 'echo "Setting up $3 ..."; printf "#!/bin/sh\\necho 1.0" >$there; chmod 755 $there'


def through(row: PackageInstall) -> PackageInstall:
    deadline = time.monotonic() + 60
    while row.ended_at is None:
        assert time.monotonic() < deadline
        package_installs.advance_step(row.pk)
        row.refresh_from_db()
        time.sleep(0.1)
    return row


def shown(host) -> str:
    return " ".join(package_installs.install_command(host, [PROGRAM]))


def test_it_is_installed_when_a_person_says_so(make, web, user):
    host = make(INSTALLS)
    page = web.get(reverse("host-detail", args=[host.pk])).content.decode()
    assert PROGRAM in page and "Nothing is installed without your confirmation" in page
    asked = web.get(reverse("host-install-confirm", args=[host.pk]), {"package": PROGRAM})
    assert shown(host) in asked.content.decode()
    assert not PackageInstall.objects.exists()
    answer = web.post(
        reverse("host-install-confirm", args=[host.pk]),
        {"package": PROGRAM, "command": shown(host)},
    )
    row = PackageInstall.objects.get()
    assert answer.url == reverse("host-install", args=[host.pk, row.pk])
    row = through(row)
    assert (row.exit_code, row.trouble, row.by) == (0, "", user)
    assert "Setting up" in row.output
    assert package_installs.missing_programs(host).programs == ()
    assert "Installed." in web.get(answer.url).content.decode()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'E: Could not get lock /var/lib/dpkg/lock-frontend' >&2; exit 100", "Another package manager"),
        ("echo 'Temporary failure resolving' >&2; exit 100", "cannot reach its package servers"),
        ("exit 0", "The installer succeeded, but benchlab-imaginary is still missing"),
        ("kill -9 $$", "exit code 137"),
    ],
)  # fmt: skip
def test_what_went_wrong_is_said_in_words(make, user, script, said):
    host = make(script)
    row = through(package_installs.start_install(host, [PROGRAM], shown(host), user))
    assert said in row.trouble


def test_what_is_not_missing_or_was_not_seen_is_refused(make, user):
    host = make(INSTALLS)
    with pytest.raises(models.HostsError, match="misses no package openssh-server"):
        package_installs.start_install(host, ["openssh-server"], "x", user)
    with pytest.raises(models.HostsError, match="No package was chosen"):
        package_installs.start_install(host, [], "x", user)
    with pytest.raises(models.HostsError, match="look at it and confirm again"):
        package_installs.start_install(host, [PROGRAM], "apt-get install -y something-else", user)
    assert not PackageInstall.objects.exists()


def test_one_at_a_time_and_no_layout_meanwhile(make, user):
    host = make("sleep 2")
    row = package_installs.start_install(host, [PROGRAM], shown(host), user)
    with pytest.raises(models.HostsError, match="already"):
        package_installs.start_install(host, [PROGRAM], shown(host), user)
    assert package_installs.is_installing(host)
    through(row)
    assert not package_installs.is_installing(host)


def test_by_api_only_for_the_team(make, user, web, other_web):
    host = make(INSTALLS)
    lacks = web.get(f"/api/hosts/{host.pk}/missing/").json()
    assert lacks["programs"] == [{"program": PROGRAM, "package": PROGRAM, "minimum": ""}]
    sent = {"packages": [PROGRAM], "command": lacks["command"]}
    url = f"/api/hosts/{host.pk}/install-packages/"
    assert other_web.post(url, sent, content_type="application/json").status_code == 404
    answer = web.post(url, {**sent, "command": "reboot"}, content_type="application/json")
    assert answer.status_code == 409
    answer = web.post(url, sent, content_type="application/json")
    assert answer.status_code == 201
    through(PackageInstall.objects.get())
    found = web.get(f"/api/package-installs/{answer.json()['id']}/").json()
    assert found["exit_code"] == 0 and found["trouble"] == ""


def test_a_job_that_never_began_ends_in_words(make, user, monkeypatch):
    host = make(INSTALLS)
    row = PackageInstall.objects.create(
        host=host, argv=["apt-get"], by=user, begun_at=timezone.now()
    )
    assert package_installs.follow_install(row).ended_at is None
    monkeypatch.setattr(package_installs, "START_LIMIT", -package_installs.START_LIMIT)
    assert "never started" in package_installs.follow_install(row).trouble
