"""Key pairs, made and uploaded."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchlab import vault
from benchlab.hosts import registration
from benchlab.hosts.models import HostsError


def keygen(tmp_path: Path, passphrase: str = "") -> str:
    path = tmp_path / "key"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "mine", "-f", path],
        check=True,
    )
    return path.read_text()


def test_a_made_pair_is_encrypted_and_fits_together(team, credential, tmp_path, ssh_keygen):
    assert b"PRIVATE" not in bytes(credential.private_key)
    private = tmp_path / "key"
    private.write_text(vault.decrypt(credential.private_key))
    private.chmod(0o600)
    shown = subprocess.run(["ssh-keygen", "-y", "-f", private], capture_output=True, text=True)
    assert shown.stdout.split()[:2] == credential.public_key.split()[:2]


def test_an_uploaded_key_gives_its_public_half(team, tmp_path, ssh_keygen):
    stored = registration.upload_credential(team, "mine", keygen(tmp_path).replace("\n", "\r\n"))
    assert stored.uploaded
    assert stored.public_key.split()[:2] == (tmp_path / "key.pub").read_text().split()[:2]


@pytest.mark.parametrize("passphrase, said", [("sesame!", "passphrase"), (None, "cannot be read")])
def test_a_useless_key_is_refused_in_words(team, tmp_path, passphrase, said, ssh_keygen):
    text = keygen(tmp_path, passphrase) if passphrase else "not a key"
    with pytest.raises(HostsError, match=said):
        registration.upload_credential(team, "mine", text)


def test_names_are_unique_per_team(team, credential):
    with pytest.raises(HostsError, match="already"):
        registration.make_credential(team, "lab")


def test_a_used_key_stays(host):
    with pytest.raises(HostsError, match="in use by lab1"):
        registration.delete_credential(host.credential)
