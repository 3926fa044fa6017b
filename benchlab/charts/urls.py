# SPDX-License-Identifier: Apache-2.0
"""URLs of runs, their figures, numbers and artifacts, and of what is explored and compared."""

from __future__ import annotations

from django.urls import path

from benchlab.charts import (
    attempt_figures,
    compare,
    device_comparison,
    figure_views,
    history,
    run_page,
    tables,
)
from benchlab.charts.explore import views as explore

urlpatterns = [
    path("runs/side-by-side/", device_comparison.side_page, name="run-side"),
    path("runs/side-by-side.json", device_comparison.side_figure, name="run-side-figure"),
    path("runs/<int:pk>/", run_page.run_detail, name="run-detail"),
    path("runs/<int:pk>/history/", history.run_history, name="run-history"),
    path("runs/<int:pk>/history.json", history.run_history_figure, name="run-history-figure"),
    path("campaigns/<int:pk>/figure.json", figure_views.campaign_figure, name="campaign-figure"),
    path("campaigns/<int:pk>/numbers.csv", tables.campaign_csv, name="campaign-csv"),
    *(
        path(
            f"attempts/<int:pk>/{address}.json",
            attempt_figures.attempt_figure,
            {"build": build},
            name=f"attempt-{name}-figure",
        )
        for address, build, name in (
            ("devices", attempt_figures.device_figure, "device"),
            ("disks", attempt_figures.disk_figure, "disk"),
            ("cpu", attempt_figures.cpu_figure, "cpu"),
            ("caches/<slug:which>", attempt_figures.cache_figure, "cache"),
            ("histogram", attempt_figures.histogram_figure, "histogram"),
        )
    ),
    path(
        "attempts/<int:pk>/histogram.csv",
        tables.attempt_histogram_csv,
        name="attempt-histogram-csv",
    ),
    path("attempts/<int:pk>/live.json", attempt_figures.attempt_live, name="attempt-live-figure"),
    path("attempts/<int:pk>/strips/", attempt_figures.attempt_strips, name="attempt-strips"),
    path("attempts/<int:pk>/series.csv", tables.attempt_series_csv, name="attempt-series-csv"),
    path("artifacts/<int:pk>/", tables.artifact, name="artifact-download"),
    path("artifacts/<int:pk>/lines/", run_page.artifact_lines, name="artifact-lines"),
    path("explore/", explore.explore, name="explore"),
    path("explore/figure.json", explore.explore_figure, name="explore-figure"),
    path("explore/numbers.csv", explore.numbers_csv, name="explore-csv"),
    path("compare/", compare.compare, name="compare"),
    path("compare/figure.json", figure_views.compare_figure, name="compare-figure"),
    path("compare/numbers.csv", tables.compare_csv, name="compare-csv"),
]
