# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from django.urls import path

from benchlab.pages.answers import views

urlpatterns = [
    path(
        "campaigns/<int:pk>/answers/dismiss/", views.dismiss_answer, name="campaign-answer-dismiss"
    ),
    path(
        "campaigns/<int:pk>/answers/take-back/",
        views.restore_answer,
        name="campaign-answer-take-back",
    ),
]
