"""Plans of real drivers on pages and by API: picture, losses, typed word, fingerprint, dry run."""
