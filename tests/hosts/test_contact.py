"""Meeting a real SSH server: first contact, failures in words, a changed key."""

from __future__ import annotations

import os

import pytest
from cryptography.fernet import Fernet
from django.urls import reverse

from agents.contracts import AgentError, Reason
from benchlab.hosts import discovery, registration, ssh_access
from benchlab.hosts.models import Host, HostsError
from tests.hosts.sshd import SSHD, Sshd

pytestmark = pytest.mark.skipif(not SSHD, reason="OpenSSH's sshd is not installed")


@pytest.fixture
def sshd(tmp_path):
    server = Sshd(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def near(team, credential, sshd) -> Host:
    """A host that is this machine, not contacted yet."""
    sshd.authorize(credential.public_key)
    return registration.add_host(
        team, "near", "127.0.0.1", credential, port=sshd.port, user=sshd.user
    )


@pytest.fixture
def pinned(near: Host, sshd: Sshd) -> Host:
    ssh_access.offer_key(near)
    ssh_access.confirm_key(near, sshd.fingerprint)
    return near


def reason(host: Host) -> Reason:
    with pytest.raises(AgentError) as caught:
        discovery.read_facts(host)
    host.refresh_from_db()
    assert host.trouble == caught.value.reason and host.trouble_text
    return caught.value.reason


def test_an_unconfirmed_host_is_sent_nothing(near):
    ssh_access.offer_key(near)
    with pytest.raises(AgentError) as caught:
        ssh_access.connect_to_host(near)
    assert caught.value.reason is Reason.HOST_KEY_UNKNOWN


def test_only_the_fingerprint_on_the_screen_can_be_pinned(near, sshd):
    assert ssh_access.offer_key(near) == sshd.fingerprint
    with pytest.raises(HostsError, match="Nothing was pinned"):
        ssh_access.confirm_key(near, "SHA256:something-else")
    assert not near.host_key
    ssh_access.confirm_key(near, sshd.fingerprint)
    assert ssh_access.fingerprints(near) == (sshd.fingerprint, "")


def test_a_pinned_host_gives_its_facts(pinned):
    facts = discovery.facts_of(discovery.read_facts(pinned))
    assert facts.kernel and facts.memory > 0
    assert pinned.seen_at and not pinned.trouble


def test_a_changed_key_stops_everything_until_a_person_decides(pinned, sshd):
    old = sshd.fingerprint
    sshd.stop()
    sshd.new_host_key()
    sshd.start()
    assert reason(pinned) is Reason.HOST_KEY_CHANGED
    assert ssh_access.fingerprints(pinned) == (old, sshd.fingerprint)
    assert reason(pinned) is Reason.HOST_KEY_CHANGED
    ssh_access.confirm_key(pinned, sshd.fingerprint)
    assert discovery.read_facts(pinned).boot_id


def test_a_changed_key_can_be_turned_down(pinned, sshd):
    key = pinned.host_key
    sshd.stop()
    sshd.new_host_key()
    sshd.start()
    assert reason(pinned) is Reason.HOST_KEY_CHANGED
    ssh_access.keep_key(pinned)
    assert (pinned.host_key, pinned.offered_key, pinned.trouble) == (key, "", "")


def test_the_pinned_key_shown_again_is_no_news(pinned):
    ssh_access.offer_key(pinned)
    assert not ssh_access.key_changed(pinned) and not pinned.trouble


def test_a_refused_key_is_said(pinned, sshd):
    sshd.authorize("")
    assert reason(pinned) is Reason.AUTHENTICATION_FAILED
    assert "authorized_keys" in pinned.trouble_text


def test_a_refused_connection_is_said(near, sshd):
    sshd.stop()
    with pytest.raises(AgentError) as caught:
        ssh_access.offer_key(near)
    assert caught.value.reason is Reason.CONNECTION_REFUSED
    near.refresh_from_db()
    assert near.trouble == Reason.CONNECTION_REFUSED


def test_an_unknown_name_is_said(near):
    registration.change_host(near, address="no-such-host.invalid")
    with pytest.raises(AgentError) as caught:
        ssh_access.offer_key(near)
    assert caught.value.reason is Reason.NAME_NOT_FOUND


def test_a_lost_vault_key_is_said(pinned, settings):
    settings.BENCHLAB_KEYS = [Fernet.generate_key().decode()]
    with pytest.raises(AgentError, match="BENCHLAB_KEY"):
        ssh_access.connect_to_host(pinned)


def test_a_host_is_added_by_its_pages(web, sshd, hosts_at_once):
    """Add, compare, connect; then the machine is installed anew."""
    given = {"name": "near", "address": "127.0.0.1", "port": sshd.port, "user": sshd.user}
    keys = web.post(reverse("host-add"), given, follow=True)
    host = Host.objects.get(name="near")
    assert sshd.fingerprint in keys.text and host.credential.public_key in keys.text

    confirm = {"fingerprint": sshd.fingerprint, "compared": "on"}
    early = web.post(reverse("host-key", args=[host.pk]), confirm, follow=True)
    assert "Authentication failed" in early.text  # pinned, but our key is not installed yet
    sshd.authorize(host.credential.public_key)
    read = web.post(reverse("host-read", args=[host.pk]), follow=True)
    assert "answered" in read.text and os.uname().release in read.text

    old = sshd.fingerprint
    sshd.stop()
    sshd.new_host_key()
    sshd.start()
    changed = web.post(reverse("host-read", args=[host.pk]), follow=True)
    assert "Everything on this host is stopped" in changed.text
    assert old in changed.text and sshd.fingerprint in changed.text
    again = web.post(
        reverse("host-key", args=[host.pk]),
        {"fingerprint": sshd.fingerprint, "compared": "on"},
        follow=True,
    )
    assert "is pinned" in again.text and "its facts were read" in again.text
