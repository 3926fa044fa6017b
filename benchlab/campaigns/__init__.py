"""Campaigns: a question and a matrix of runs."""
