"""Texts that people and programs bring: results found in them, figures taken out, made harmless to show."""
