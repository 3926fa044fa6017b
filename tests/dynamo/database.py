"""The tests' own database, for processes that are started beside a test."""

from __future__ import annotations

import os
from urllib.parse import urlsplit, urlunsplit

from django.db import connection


def environment() -> dict[str, str]:
    parts = urlsplit(os.environ["DATABASE_URL"])
    name = connection.settings_dict["NAME"]
    return {**os.environ, "DATABASE_URL": urlunsplit(parts._replace(path=f"/{name}"))}
