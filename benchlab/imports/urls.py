# SPDX-License-Identifier: Apache-2.0
"""URLs of the import."""

from __future__ import annotations

from django.urls import path

from benchlab.imports import views, views_diagnose

urlpatterns = [
    path("import/", views.import_new, name="import-new"),
    path("import/<int:pk>/", views.import_detail, name="import-detail"),
    path("import/<int:pk>/discard/", views.import_discard, name="import-discard"),
    path("import/<int:pk>/files/<int:file_pk>/", views.import_file, name="import-file"),
    path("diagnose/", views_diagnose.diagnose_page, name="diagnose"),
    path("library/", views.library, name="library"),
    path("sources/<int:pk>/", views.source_download, name="source-download"),
]
