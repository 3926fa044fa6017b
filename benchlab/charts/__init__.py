"""Queries -> analysis -> Plotly figures as dicts."""
