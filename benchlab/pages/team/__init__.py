"""Pages of accounts, teams, invitations and tokens."""
