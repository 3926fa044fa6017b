# SPDX-License-Identifier: Apache-2.0
"""SSH, the only importer of asyncssh: `shell` is its face to the rest, `lasting_shell` for many commands in a row."""
