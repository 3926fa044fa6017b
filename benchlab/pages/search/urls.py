# SPDX-License-Identifier: Apache-2.0
"""URL of the search."""

from __future__ import annotations

from django.urls import path

from benchlab.pages.search import views

urlpatterns = [path("", views.search, name="search")]
