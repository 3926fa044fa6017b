"""Every page of hosts: what it shows, and that another team sees nothing."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from agents.contracts import AgentError, Reason
from benchlab import vault
from benchlab.hosts import discovery, registration, spare_disks, ssh_access
from benchlab.hosts.models import Credential, Host
from benchlab.team.models import Team
from tests.hosts.conftest import credential_key, disk, facts


@pytest.fixture(autouse=True)
def no_network(monkeypatch, hosts_at_once):
    """Nothing answers, unless a test says so."""

    def refused(*args, **kwargs):
        raise AgentError("192.0.2.1 port 22: refused", Reason.CONNECTION_REFUSED)

    monkeypatch.setattr("agents.ssh.shell.offered_host_key", refused)
    monkeypatch.setattr("agents.ssh.shell.connect_shell", refused)


def url(name: str, host: Host, *more: int) -> str:
    return reverse(name, args=[host.pk, *more])


def device_url(host: Host, name: str, page: str = "device-detail") -> str:
    return url(page, host, host.devices.get(name=name).pk)


GET_PAGES = ["host-detail", "host-change", "host-delete", "host-history", "host-key"]
POST_PAGES = ["host-read", "host-delete", "host-key-ask", "host-key-keep"]


@pytest.mark.parametrize("name", GET_PAGES)
def test_pages_open_for_the_team_only(web, other_web, read_host, name):
    assert web.get(url(name, read_host)).status_code == 200
    assert other_web.get(url(name, read_host)).status_code == 404


@pytest.mark.parametrize("name", POST_PAGES)
def test_another_team_changes_nothing(other_web, read_host, name):
    assert other_web.post(url(name, read_host)).status_code == 404
    assert Host.objects.filter(pk=read_host.pk).exists()


def test_devices_and_readings_are_the_teams_own(web, other_web, read_host, other_user):
    snapshot = url("host-snapshot", read_host, read_host.snapshots.get().pk)
    for address in (snapshot, device_url(read_host, "sdb")):
        assert web.get(address).status_code == 200
        assert other_web.get(address).status_code == 404
    keep = device_url(read_host, "sdb", "device-keep")
    assert other_web.post(keep).status_code == 404


def test_strangers_are_sent_to_the_login(client, read_host):
    answer = client.get(url("host-detail", read_host))
    assert answer.status_code == 302 and "/login/" in answer["Location"]


def test_the_list_shows_only_our_hosts(web, other_web, read_host):
    assert "lab1" in web.get(reverse("host-list")).text
    theirs = other_web.get(reverse("host-list")).text
    assert "lab1" not in theirs and "Add the first one" in theirs


def test_the_list_asks_once_however_many_hosts(web, read_host, team, django_assert_num_queries):
    web.get(reverse("host-list"))  # the top bar is read once
    with django_assert_num_queries(4):  # session, user, team, hosts
        web.get(reverse("host-list"))
    for number in range(5):
        registration.add_host(team, f"more{number}", "192.0.2.9", read_host.credential)
    with django_assert_num_queries(4):
        assert "more4" in web.get(reverse("host-list")).text


NEW = {"name": "lab2", "address": "lab2.example", "port": 22, "user": "root"}


def test_adding_makes_a_key_and_goes_on_to_it(web):
    answer = web.post(reverse("host-add"), NEW, follow=True)
    host = Host.objects.get(name="lab2")
    assert answer.redirect_chain[-1][0] == f"{url('host-key', host)}?task={host.tasks.get().pk}"
    assert host.credential.public_key in answer.text
    assert "Connection refused" in answer.text  # the host did not answer, and that is said


def test_adding_with_a_stored_key(web, credential):
    web.post(reverse("host-add"), NEW | {"credential": credential.pk})
    assert Host.objects.get(name="lab2").credential == credential


def test_a_copy_is_the_form_filled_in_but_for_the_address(web, other_web, read_host):
    Host.objects.filter(pk=read_host.pk).update(port=2222, user="bench", notes="Rack 4")
    form = (answer := web.get(reverse("host-add"), {"copy": read_host.pk})).context["form"]
    told = {name: form[name].value() for name in form.fields}
    assert told == {
        "name": f"Copy of {read_host.name}", "address": None, "port": 2222, "user": "bench",
        "credential": read_host.credential_id, "private_key": None, "notes": "Rack 4",
    }  # fmt: skip
    secret = vault.decrypt(read_host.credential.private_key)
    assert "PRIVATE KEY" not in answer.text and secret.split()[10] not in answer.text
    assert read_host.address not in answer.text and Host.objects.count() == 1
    assert f"?copy={read_host.pk}" in web.get(url("host-detail", read_host)).text
    assert other_web.get(reverse("host-add"), {"copy": read_host.pk}).status_code == 404


@pytest.mark.parametrize("asked", ["x", "-1", "9" * 40, "\u0663"])
def test_a_copy_of_no_host_is_not_found(web, asked):
    assert web.get(reverse("host-add"), {"copy": asked}).status_code == 404


def test_a_key_of_another_team_cannot_be_used(other_web, credential):
    answer = other_web.post(reverse("host-add"), NEW | {"credential": credential.pk})
    assert answer.status_code == 200 and "Select a valid choice" in answer.text


def test_adding_with_an_uploaded_key(web, credential):
    private = vault.decrypt(credential.private_key).encode()
    web.post(reverse("host-add"), NEW | {"private_key": SimpleUploadedFile("id", private)})
    key = Host.objects.get(name="lab2").credential
    assert key.uploaded and key.public_key.split()[1] == credential.public_key.split()[1]


@pytest.mark.parametrize(
    "given, said",
    [
        ({"address": "root@lab"}, "Give a host name"),
        ({"address": "-oProxyCommand=x"}, "Give a host name"),
        ({"address": "lab:22"}, "Give a host name"),
        ({"port": 0}, "greater than or equal to 1"),
        ({"user": "a b"}, "not a user name"),
        ({"name": ""}, "required"),
        ({"name": "lab1"}, "already"),
        ({"private_key": SimpleUploadedFile("id", b"\xff\xfe")}, "not a text file"),
        ({"private_key": SimpleUploadedFile("id", b"nonsense")}, "cannot be read"),
        ({"private_key": SimpleUploadedFile("id", b"x" * 70000)}, "too big"),
    ],
)
def test_bad_input_is_said_and_nothing_is_kept(web, host, given, said):
    answer = web.post(reverse("host-add"), NEW | given)
    assert answer.status_code == 200 and said in answer.text
    assert not Host.objects.filter(name="lab2").exists()
    assert Credential.objects.count() == 1


def test_a_fingerprint_is_shown_and_pinned(web, host):
    host.offered_key = credential_key(host)
    host.save()
    seen = ssh_access.fingerprints(host)[1]
    shown = web.get(url("host-key", host)).text
    assert seen in shown and "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub" in shown
    unticked = web.post(url("host-key", host), {"fingerprint": seen})
    assert "Compare the fingerprints first" in unticked.text
    web.post(url("host-key", host), {"fingerprint": "SHA256:other", "compared": "on"})
    host.refresh_from_db()
    assert not host.host_key
    web.post(url("host-key", host), {"fingerprint": seen, "compared": "on"})
    host.refresh_from_db()
    assert host.host_key == credential_key(host) and not host.offered_key


@pytest.fixture
def changed_host(read_host: Host, team: Team) -> Host:
    read_host.offered_key = registration.make_credential(team, "their new key").public_key
    read_host.trouble = Reason.HOST_KEY_CHANGED
    read_host.save()
    return read_host


def test_a_changed_key_takes_the_page_over(web, changed_host):
    answer = web.get(url("host-detail", changed_host), follow=True)
    pinned, offered = ssh_access.fingerprints(changed_host)
    assert pinned in answer.text and offered in answer.text
    assert "Everything on this host is stopped" in answer.text


def test_a_changed_key_can_be_turned_down(web, changed_host):
    pinned = changed_host.host_key
    web.post(url("host-key-keep", changed_host))
    changed_host.refresh_from_db()
    assert changed_host.host_key == pinned and not ssh_access.key_changed(changed_host)


@pytest.mark.parametrize(
    "reason, cure",
    [
        (Reason.CONNECTION_REFUSED, "nothing listens on that port"),
        (Reason.TIMED_OUT, "firewall"),
        (Reason.AUTHENTICATION_FAILED, "authorized_keys"),
        (Reason.NAME_NOT_FOUND, "cannot resolve"),
        (Reason.NO_SUDO, "sudoers.d"),
        (Reason.BAD_FACTS, "unexpected"),
        (Reason.INTERNAL, "See the message"),
    ],
)
def test_each_failure_says_what_to_do(web, read_host, monkeypatch, reason, cure):
    def fail(*args):
        raise AgentError(f"root@192.0.2.1: {reason} <i>", reason)

    monkeypatch.setattr("agents.ssh.shell.connect_shell", fail)
    answer = web.post(url("host-read", read_host), follow=True)
    assert cure in answer.text
    assert f"root@192.0.2.1: {reason} &lt;i&gt;" in answer.text


def test_missing_sudo_is_said_with_the_line_to_type(web, read_host):
    registration.change_host(read_host, user="bench")
    discovery.store_facts(
        read_host, facts(disk("sdb"), root=False, sudo=False, unknown=("no root",))
    )
    shown = web.get(url("host-detail", read_host)).text
    assert "may not use sudo without a password" in shown
    assert "bench ALL=(ALL) NOPASSWD: ALL" in shown


def test_what_a_host_says_is_text(web, read_host):
    evil = '\x1b[2J<script>alert(1)</script>"'
    given = facts(disk("sdb", model=evil), hostname=evil, tools={"fio": evil})
    discovery.store_facts(read_host, given)
    for address in (url("host-detail", read_host), device_url(read_host, "sdb")):
        shown = web.get(address).text
        assert "<script>alert" not in shown and "\x1b" not in shown
        assert "&lt;script&gt;" in shown


def test_a_disk_is_marked_and_taken_back(web, read_host, user):
    address = device_url(read_host, "sdb")
    wrong = web.post(address, {"role": "hdd", "typed": "S-sda"})
    assert "Nothing was changed" in wrong.text
    web.post(address, {"role": "hdd", "typed": "S-sdb"})
    assert set(spare_disks.host_spares(read_host)) == {"serial:S-sdb"}
    shown = web.get(url("host-detail", read_host)).text
    assert "Spare, hdd" in shown
    web.post(device_url(read_host, "sdb", "device-keep"))
    assert not spare_disks.host_spares(read_host)


def test_a_disk_in_use_offers_no_form(web, read_host):
    shown = web.get(device_url(read_host, "sda")).text
    assert "cannot be spare now" in shown and 'name="typed"' not in shown


def test_a_weak_identity_is_said(web, read_host):
    assert "Weak identity" in web.get(url("host-detail", read_host)).text
    assert "neither serial number nor WWN" in web.get(device_url(read_host, "sdc")).text


def test_a_weak_disk_is_to_be_confirmed_again_after_a_boot(web, read_host, user):
    spare_disks.mark_spare(read_host.devices.get(name="sdc"), user, f"sdc:{2**30}", "hdd")
    address = device_url(read_host, "sdc")
    assert "counts until lab1 boots" in web.get(address).text
    assert "Confirm again" not in web.get(url("host-detail", read_host)).text
    discovery.store_facts(
        read_host, facts(disk("sdc", serial="", model="QEMU HARDDISK"), boot_id="c")
    )
    assert "Confirm again" in web.get(url("host-detail", read_host)).text
    assert "nothing is written to sdc until" in web.get(address).text
    web.post(address, {"role": "hdd", "typed": f"sdc:{2**30}"})
    assert "Confirm again" not in web.get(url("host-detail", read_host)).text


def test_a_host_is_changed(web, read_host):
    given = NEW | {"credential": read_host.credential.pk, "notes": "rack 4"}
    web.post(url("host-change", read_host), given)
    read_host.refresh_from_db()
    assert (read_host.name, read_host.notes) == ("lab2", "rack 4")
    assert read_host.host_key  # stays pinned


def test_a_taken_name_is_said(web, read_host, team):
    registration.add_host(team, "lab2", "192.0.2.2", read_host.credential)
    given = NEW | {"credential": read_host.credential.pk}
    answer = web.post(url("host-change", read_host), given)
    assert answer.status_code == 200 and "already" in answer.text


def test_a_host_is_removed(web, read_host):
    answer = web.post(url("host-delete", read_host), follow=True)
    assert "is removed" in answer.text and not Host.objects.exists()


def test_keys_are_listed_and_unused_ones_deleted(web, other_web, host, team):
    spare = registration.make_credential(team, "spare key")
    listed = web.get(reverse("credential-list")).text
    assert "spare key" in listed and "PRIVATE" not in listed
    assert "spare key" not in other_web.get(reverse("credential-list")).text
    address = reverse("credential-delete", args=[spare.pk])
    assert other_web.post(address).status_code == 404
    web.post(address)
    web.post(reverse("credential-delete", args=[host.credential.pk]))
    assert list(Credential.objects.all()) == [host.credential]


@pytest.mark.parametrize("name", ["host-read", "host-key-ask", "host-key-keep"])
def test_what_changes_something_wants_a_post(web, read_host, name):
    assert web.get(url(name, read_host)).status_code == 405


def test_a_rating_is_typed_as_data_sheets_say_it_and_kept_in_base_units(web, read_host):
    page = device_url(read_host, "sdb", "device-rate")
    answer = web.post(page, {"rated_iops": "5000", "rated_mb": "199.5"}, follow=True)
    sdb = read_host.devices.get(name="sdb")
    assert (sdb.rated_iops, sdb.rated_bandwidth) == (5000, 199_500_000)
    assert "5 k IOPS, 200 MB/s" in answer.text
    assert 'value="199.5"' in answer.text
    web.post(page, {"rated_iops": "", "rated_mb": ""})
    sdb.refresh_from_db()
    assert (sdb.rated_iops, sdb.rated_bandwidth) == (None, None)


def test_a_disk_has_what_its_link_carries(web, read_host):
    discovery.store_facts(
        read_host, facts(disk("sdb", link_bandwidth=600_000_000), disk("sdc", serial=""))
    )
    assert "at most 600 MB/s" in web.get(device_url(read_host, "sdb")).text
    assert web.get(url("host-detail", read_host)).text.count("600 MB/s") == 1
    assert "<dt>Link" not in web.get(device_url(read_host, "sdc")).text


@pytest.mark.parametrize(
    "typed", [{"rated_iops": "0"}, {"rated_iops": "-1"}, {"rated_mb": "0"}, {"rated_mb": "nan"},
              {"rated_mb": "1e30"}, {"rated_iops": str(10**30)}]
)  # fmt: skip
def test_a_rating_that_is_none_is_refused(web, read_host, typed):
    answer = web.post(device_url(read_host, "sdb", "device-rate"), typed)
    assert answer.status_code == 200 and "errorlist" in answer.text
    sdb = read_host.devices.get(name="sdb")
    assert (sdb.rated_iops, sdb.rated_bandwidth) == (None, None)


def test_another_team_rates_nothing(other_web, read_host):
    page = device_url(read_host, "sdb", "device-rate")
    assert other_web.post(page, {"rated_iops": "5000"}).status_code == 404
    assert read_host.devices.get(name="sdb").rated_iops is None


def test_a_rating_outlives_the_next_reading(web, read_host):
    web.post(device_url(read_host, "sdb", "device-rate"), {"rated_iops": "5000"})
    discovery.store_facts(read_host, facts(disk("sdb", model="another name for it")))
    sdb = read_host.devices.get(name="sdb")
    assert (sdb.model, sdb.rated_iops) == ("another name for it", 5000)
