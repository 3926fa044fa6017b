"""SSH, the only importer of asyncssh. `agents.shell` is its face to the rest."""
