# SPDX-License-Identifier: Apache-2.0
"""The chain's head: how many entries there are and the last one's digest, kept where the log itself is not.

The chain alone does not show that its end was cut off, nor that somebody who writes to the database computed all of it
anew. So its head is kept twice:

- in a row of another table, sealed (HMAC-SHA256) with a key derived from BENCHLAB_KEY, which the database has not: it
  moves in the transaction of each entry, whichever process on whichever machine writes it;
- in a file, BENCHLAB_AUDIT_HEAD (`up` has it in the state directory): an older log put back together with its older
  row bears a seal of ours, and only what does not go back with the database tells that there was more.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from django.conf import settings

from benchlab.audit.models import Entry

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HeadContent:
    """Content of a head. All of it is empty for an empty log."""

    entries: int = 0
    entry: int = 0
    digest: str = ""


# The migrations of 0.2.0 name it so.
Told = HeadContent


class Unreadable(Exception):
    """The head file exists but cannot be read; the text names it."""


def seal(content: HeadContent) -> str:
    """Seal of the content, made with the newest key."""
    return _hmac_seal(content, settings.BENCHLAB_KEYS[0])


def is_sealed(content: HeadContent, with_seal: str) -> bool:
    """True if the seal was made with any of the keys: a new key is put in front of the old ones."""
    return any(
        hmac.compare_digest(with_seal, _hmac_seal(content, key)) for key in settings.BENCHLAB_KEYS
    )


def _hmac_seal(content: HeadContent, secret: str) -> str:
    key = hmac.digest(secret.strip().encode(), b"benchlab.audit.head", hashlib.sha256)
    return hmac.new(key, json.dumps(asdict(content)).encode(), hashlib.sha256).hexdigest()


def head_file() -> Path | None:
    """Path of the head file; None if there is none."""
    return Path(settings.BENCHLAB_AUDIT_HEAD) if settings.BENCHLAB_AUDIT_HEAD else None


def read_head_file() -> HeadContent | None:
    """Head in the file; None where there is none (yet). Raises Unreadable."""
    place = head_file()
    if place is None:
        return None
    try:
        fields = json.loads(place.read_text())
        return HeadContent(int(fields["entries"]), int(fields["entry"]), str(fields["digest"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unreadable(f"{place}, which holds its head, cannot be read: {error}") from None


def is_in_log(content: HeadContent) -> bool:
    """True if the log still has the entry that the head names, or the head names none."""
    entries = Entry.objects.filter(pk=content.entry, digest=content.digest)
    return not content.entries or entries.exists()


def write_head_file(content: HeadContent, anew: bool = False) -> None:
    """Write the head after the commit. A head that the log no longer has stays: it is the evidence.

    `anew`: a person has looked and takes the log as it is. A file that cannot be written stops nobody's work.
    """
    place = head_file()
    if place is None:
        return
    try:
        with _exclusive(place):
            before = None if anew else read_head_file()
            if before and before.entry >= content.entry:
                # another process was faster
                return
            if before and not is_in_log(before):
                log.error("audit log: entry %d of %s is gone from it", before.entry, place)
                return
            _replace_file(place, content)
    except (OSError, Unreadable) as error:
        log.error("audit log: its head could not be kept: %s", error)


@contextmanager
def _exclusive(place: Path) -> Iterator[None]:
    """Lock the file: web, worker and commands write it at the same time."""
    with place.with_suffix(".lock").open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _replace_file(place: Path, content: HeadContent) -> None:
    """Replace the file at once or not at all: a crash leaves the old or the new one."""
    draft = place.with_suffix(".new")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(asdict(content), file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(place)
