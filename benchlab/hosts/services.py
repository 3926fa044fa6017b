# SPDX-License-Identifier: Apache-2.0
"""All that others may ask of hosts. Views, API, tasks and the engine import this; each subject has its module."""

from __future__ import annotations

from benchlab.hosts.contact import (
    confirm_key,
    connect,
    fingerprints,
    keep_key,
    key_changed,
    offer_key,
    record_trouble,
    try_again,
    unconnected,
)
from benchlab.hosts.credentials import (
    delete_credential,
    free_key_name,
    make_credential,
    upload_credential,
)
from benchlab.hosts.discovery import (
    CONFINES,
    all_last_facts,
    facts_at,
    facts_of,
    last_facts,
    look,
    missing_tool,
    read_facts,
)
from benchlab.hosts.errors import HostsError
from benchlab.hosts.installing import busy as installing
from benchlab.hosts.installing import command as install_command
from benchlab.hosts.installing import follow as follow_install
from benchlab.hosts.installing import missing, offered
from benchlab.hosts.installing import start as install
from benchlab.hosts.registering import add_host, change_host, delete_host
from benchlab.hosts.spares import mark_spare, spares, spares_among, unmark_spare

__all__ = [
    "CONFINES",
    "HostsError",
    "add_host",
    "all_last_facts",
    "change_host",
    "confirm_key",
    "connect",
    "delete_credential",
    "delete_host",
    "facts_at",
    "facts_of",
    "fingerprints",
    "follow_install",
    "free_key_name",
    "install",
    "install_command",
    "installing",
    "keep_key",
    "key_changed",
    "last_facts",
    "look",
    "make_credential",
    "mark_spare",
    "missing",
    "missing_tool",
    "offer_key",
    "offered",
    "read_facts",
    "record_trouble",
    "spares",
    "spares_among",
    "try_again",
    "unconnected",
    "unmark_spare",
    "upload_credential",
]
