"""URLs of runs, their figures, numbers and artifacts, and of the compare page."""

from __future__ import annotations

from django.urls import path

from benchlab.charts import compare, downloads, figures, runs

urlpatterns = [
    path("runs/<int:pk>/", runs.run_detail, name="run-detail"),
    path("campaigns/<int:pk>/figure.json", figures.campaign_figure, name="campaign-figure"),
    path("campaigns/<int:pk>/numbers.csv", downloads.campaign_csv, name="campaign-csv"),
    path("attempts/<int:pk>/devices.json", figures.attempt_devices, name="attempt-device-figure"),
    path("attempts/<int:pk>/cpu.json", figures.attempt_cpu, name="attempt-cpu-figure"),
    path(
        "attempts/<int:pk>/caches/<slug:which>.json",
        figures.attempt_cache,
        name="attempt-cache-figure",
    ),
    path("attempts/<int:pk>/live.json", figures.attempt_live, name="attempt-live-figure"),
    path("attempts/<int:pk>/series.csv", downloads.attempt_series_csv, name="attempt-series-csv"),
    path("artifacts/<int:pk>/", downloads.artifact, name="artifact-download"),
    path("artifacts/<int:pk>/lines/", runs.artifact_lines, name="artifact-lines"),
    path("compare/", compare.compare, name="compare"),
    path("compare/figure.json", figures.compare_figure, name="compare-figure"),
    path("compare/numbers.csv", downloads.compare_csv, name="compare-csv"),
]
