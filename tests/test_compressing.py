"""Compressed answers to browsers, uncompressed ones, and that an ETag still saves the whole answer."""

from __future__ import annotations

import gzip

import pytest
from django.http import HttpResponse, StreamingHttpResponse
from django.test import Client, RequestFactory

from benchlab.team import tokens
from benchlab.team.roles import Role
from benchlab.web import middleware
from benchlab.web.middleware import CompressionMiddleware

GZIP = {"Accept-Encoding": "gzip"}
LONG = b"0123456789" * 100


def answered(response):
    request = RequestFactory().get("/", headers=GZIP)
    return CompressionMiddleware(lambda _: response)(request)


@pytest.mark.parametrize(
    "kind", ["text/html; charset=utf-8", "text/csv", "application/json", "application/problem+json"]
)
def test_texts_are_compressed(kind):
    answer = answered(HttpResponse(LONG, content_type=kind))
    assert answer["Content-Encoding"] == "gzip" and gzip.decompress(answer.content) == LONG
    assert "Accept-Encoding" in answer["Vary"]


@pytest.mark.parametrize("kind", ["image/png", "application/zip", "application/octet-stream"])
def test_other_things_are_left_alone(kind):
    assert "Content-Encoding" not in answered(HttpResponse(LONG, content_type=kind))


@pytest.mark.parametrize("kind", ["text/event-stream", "text/csv"])
def test_streams_are_left_alone(kind):
    answer = answered(StreamingHttpResponse([LONG], content_type=kind))
    assert "Content-Encoding" not in answer and b"".join(answer) == LONG


@pytest.mark.django_db
def test_an_answer_that_did_not_change_is_not_sent_again(user):
    _, key = tokens.create_token(user, "t", Role.VIEWER)
    api = Client(headers={"Authorization": f"Token {key}", **GZIP})
    first = api.get("/api/hosts/")
    again = api.get("/api/hosts/", headers={"If-None-Match": first["ETag"]})
    assert (first.status_code, again.status_code) == (200, 304)


def test_static_files_are_collected_once_for_what_they_are(settings, tmp_path):
    settings.STATIC_ROOT = tmp_path
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "servestatic.storage.CompressedManifestStaticFilesStorage"},
    }
    assert middleware.collect_static_files() is True
    names = {path.name for path in tmp_path.iterdir()}
    assert any(name.startswith("benchlab.") and name.endswith(".css.gz") for name in names)
    assert middleware.collect_static_files() is False
