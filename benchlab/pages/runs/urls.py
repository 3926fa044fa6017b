# SPDX-License-Identifier: Apache-2.0
"""URLs of the table of runs, under /runs/."""

from __future__ import annotations

from django.urls import path

from benchlab.pages.runs import views

urlpatterns = [
    path("", views.run_list, name="run-list"),
    path("words/", views.run_words, name="run-words"),
    path("compare/", views.run_compare, name="run-compare"),
]
