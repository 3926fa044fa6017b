from __future__ import annotations

import pytest

from benchlab.imports import shelf
from benchlab.imports.articles import articles
from benchlab.team.models import Team


@pytest.fixture(scope="module")
def shelved(django_db_setup, django_db_blocker):
    """The whole reference library, loaded once for all tests of a module; each undoes what it changes."""
    with django_db_blocker.unblock():
        done = shelf.load(articles())
        yield done
        shelf.load([])
        Team.objects.filter(library=True).delete()
