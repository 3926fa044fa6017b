# SPDX-License-Identifier: Apache-2.0
"""Keys that a backup needs and keys that its restore would use: compared before anything is written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

from benchlab import env
from benchlab.up import backup
from benchlab.up.backup import DUMP, KEYS, Manifest, fingerprint
from benchlab.up.database import is_given
from benchlab.up.state import State, read_json
from benchlab.up.trouble import Trouble

WITHOUT = "--without-ssh-keys"
CREDENTIALS = "hosts_credential"


def chosen(place: Path, state: State) -> Mapping[str, str]:
    """The keys of the backup at `place` that the environment does not set, to be taken over."""
    keys = read_json(place / KEYS)
    return {
        name: str(keys[name]) for name in backup.KEPT if name in keys and not _brought(name, state)
    }


def _brought(name: str, state: State) -> bool:
    """True if the caller's environment sets the key, not the state directory."""
    own = read_json(state.path / "secrets.json").get(name)
    return is_given(name) and os.environ.get(name) != own


def require(place: Path, manifest: Manifest, taken_over: Mapping[str, str]) -> None:
    """Raise Trouble, with the remedy, if stored secrets could not be opened."""
    own = taken_over.get("BENCHLAB_KEY")
    keys = env.fernet_keys(own) if own else list(settings.BENCHLAB_KEYS)
    newest = manifest.keys[:1]
    lost = set(newest) - set(map(fingerprint, keys))
    shut = _shut(place / DUMP, keys) if manifest.credentials else []
    if lost or shut:
        raise Trouble(
            _keys_message(place, manifest, keys, shut, kept_there=bool(read_json(place / KEYS)))
        )


def _keys_message(
    place: Path, manifest: Manifest, keys: Sequence[str], shut: Sequence[str], kept_there: bool
) -> str:
    fingerprint_words = f", whose fingerprint is {manifest.keys[0]}" if manifest.keys else ""
    own_fingerprints = ", ".join(map(fingerprint, keys))
    lines = [
        f"The backup was made under another BENCHLAB_KEY{fingerprint_words}; the one given here has {own_fingerprints}."
    ]
    if shut:
        lines.append(f"It does not open these SSH keys: {', '.join(shut)}.")
    if kept_there:
        lines.append(
            f"Leave BENCHLAB_KEY out of the environment, then the one in {place / KEYS} is used, or put that one "
            "behind yours: BENCHLAB_KEY=YOURS,OLD."
        )
    else:
        lines.append(
            f"There is no {KEYS} in {place}. Give BENCHLAB_KEY in the environment, as it was when the backup was made, "
            "or behind a new one: BENCHLAB_KEY=NEW,OLD."
        )
    lines.append(f"To go on without what it seals, add {WITHOUT}. Nothing was changed.")
    return " ".join(lines)


def _shut(dump: Path, keys: Sequence[str]) -> list[str]:
    """Names of the SSH keys in the dump that none of the keys can decrypt."""
    fernet = MultiFernet([Fernet(key) for key in keys])
    unreadable = []
    for name, sealed in _credentials(dump):
        try:
            fernet.decrypt(sealed)
        except InvalidToken:
            unreadable.append(name)
    return unreadable


def _credentials(dump: Path) -> Iterator[tuple[str, bytes]]:
    """Name and encrypted private key of each SSH key, from the COPY of their table, whose columns tabs separate.

    A server prints bytea as hex, or with bytea_output = escape as the letters of the Fernet token itself.
    """
    how = ("--data-only", f"--table={CREDENTIALS}", "--file=-", str(dump))
    lines = iter(backup.run("pg_restore", *how, connected=False).splitlines())
    head = next((line for line in lines if line.startswith("COPY ")), "")
    columns = head.partition("(")[2].partition(")")[0].split(", ")
    for line in lines:
        if line == "\\.":
            return
        row = dict(zip(columns, line.split("\t"), strict=True))
        sealed = row["private_key"]
        raw = sealed.encode() if "\\" not in sealed else bytes.fromhex(sealed.removeprefix("\\\\x"))
        yield row["name"], raw
