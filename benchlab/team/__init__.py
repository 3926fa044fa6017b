"""Accounts and the teams that own everything."""
