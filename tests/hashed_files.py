"""Static files as an installation serves them: each with a hash in its name, and none that was not collected.

`hashed_files` is for tests that ask for many pages; elsewhere files are served from where they lie, whatever they are
called.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import override_settings

from benchlab.pages import documents

STORAGE = "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"


@pytest.fixture(scope="session")
def collected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Settings under which they were collected."""
    given = {
        "STATIC_ROOT": tmp_path_factory.mktemp("static"),
        "STORAGES": {
            "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
            "staticfiles": {"BACKEND": STORAGE},
        },
    }
    with override_settings(**given):
        call_command("collectstatic", interactive=False, verbosity=0)
    return given


@pytest.fixture
def hashed_files(collected: dict[str, Any]) -> Iterator[Path]:
    """Where they lie."""
    documents.load_document.cache_clear()
    with override_settings(**collected):
        yield collected["STATIC_ROOT"]
    documents.load_document.cache_clear()
