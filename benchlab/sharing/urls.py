# SPDX-License-Identifier: Apache-2.0
"""URLs of sharing: what people say about a row, saved views, links, the feed, reports, and what a guest sees."""

from __future__ import annotations

from django.urls import include, path

from benchlab.sharing import activity, comparisons, discussion, links, views_guest, views_report

talk = [
    path("comment/", discussion.comment_add, name="talk-comment"),
    path("tag/", discussion.tag_add, name="talk-tag"),
    path("untag/", discussion.tag_remove, name="talk-untag"),
    path("note/", discussion.note_save, name="talk-note"),
    path("star/", discussion.star_set, name="talk-star"),
]

# /s/<token>/: without an account
guest = [
    path("", views_guest.shared_page, name="shared"),
    path("embed/", views_guest.embed, name="shared-embed"),
    path("figure.json", views_guest.guest_figure, name="shared-figure"),
    path("numbers.csv", views_guest.guest_numbers, name="shared-csv"),
    path("devices.json", views_guest.run_devices, name="shared-devices"),
    path("histogram.json", views_guest.run_histogram, name="shared-histogram"),
    path("cpu.json", views_guest.run_cpu, name="shared-cpu"),
    path("caches/<slug:which>.json", views_guest.run_cache, name="shared-cache"),
    path("series.csv", views_guest.run_series, name="shared-series"),
    path("artifacts/<int:pk>/", views_guest.guest_artifact, name="shared-artifact"),
]

urlpatterns = [
    path("talk/<slug:kind>/<int:pk>/", include(talk)),
    path("comments/<int:pk>/edit/", discussion.comment_edit, name="comment-edit"),
    path("comments/<int:pk>/delete/", discussion.comment_delete, name="comment-delete"),
    path("views/", comparisons.view_list, name="view-list"),
    path("views/save/", comparisons.view_save, name="view-save"),
    path("views/<int:pk>/delete/", comparisons.view_delete, name="view-delete"),
    path("shares/", links.share_list, name="share-list"),
    path("shares/new/", links.share_new, name="share-new"),
    path("shares/<int:pk>/revoke/", links.share_revoke, name="share-revoke"),
    path("activity/", activity.activity_page, name="activity"),
    *(
        path(f"{folder}/<int:pk>/{ending}", view, {"kind": kind}, name=f"{kind}-report{name}")
        for folder, kind in (("campaigns", "campaign"), ("views", "view"))
        for ending, view, name in (
            ("report/", views_report.report_page, ""),
            ("report/<slug:place>/", views_report.report_text, "-text"),
            ("report.html", views_report.report_file, "-file"),
            ("report-raw.zip", views_report.report_raw, "-raw"),
            ("report-files/", views_report.report_made, "-made"),
        )
    ),
    path("report-files/<int:pk>/", views_report.made_file, name="made-report"),
    path("s/<str:token>/", include(guest)),
]
