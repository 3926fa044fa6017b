# SPDX-License-Identifier: Apache-2.0
"""URLs of the documents."""

from __future__ import annotations

from django.urls import path

from benchlab.pages.documents import views

urlpatterns = [
    path("docs/<slug:name>/", views.document_page, name="document"),
    path("docs/pictures/<str:name>", views.document_picture, name="document-picture"),
]
