# SPDX-License-Identifier: Apache-2.0
"""URLs of the page that shows every component."""

from __future__ import annotations

from django.urls import path

from benchlab.pages.look import views

urlpatterns = [
    path("", views.look_page, name="look"),
    path("figure.json", views.look_figure, name="look-figure"),
]
