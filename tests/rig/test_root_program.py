"""A program that a person named, on a real host: a user who turns a link, or who owns it, does not become root."""

from __future__ import annotations

import pytest

from agents.contracts import AgentError
from agents.safety.root_only import resolved
from agents.ssh.lasting_shell import lasting
from tests.rig.bench import shell_on

MAKE = r"""
mkdir -p /opt/pg/bin /home/u/pg /home/u/own
printf '#!/bin/sh\n' >/opt/pg/bin/pg_test_fsync; cp /opt/pg/bin/pg_test_fsync /home/u/own
chmod 755 /opt/pg/bin/pg_test_fsync /home/u/own/pg_test_fsync
ln -sfn /opt/pg/bin/pg_test_fsync /home/u/pg/pg_test_fsync
ln -sfn /opt/pg/bin /opt/current
chown -hR nobody /home/u
"""
NAMED, ROOTS = "/home/u/pg/pg_test_fsync", "/opt/current/pg_test_fsync"


def test_what_root_runs_is_not_for_a_user_to_choose(rig_host):
    rig_host.ssh("sh", "-c", MAKE)
    try:
        with lasting(shell_on(rig_host)) as shell:
            with pytest.raises(AgentError, match=r"/home/u belongs to user \d+"):
                resolved(shell, NAMED)
            assert resolved(shell, ROOTS) == "/opt/pg/bin/pg_test_fsync"
            turn = ("ln", "-sfn", "/home/u/own/pg_test_fsync", NAMED)
            as_user = ("setpriv", "--reuid", "nobody", "--clear-groups", *turn)
            assert shell.run(as_user, root=True).exit_code == 0
            with pytest.raises(AgentError, match=r"/home/u belongs to user \d+"):
                resolved(shell, NAMED)
            shell.run(("chmod", "1777", "/opt/pg/bin"), root=True)
            with pytest.raises(AgentError, match="/opt/pg/bin is writable by users other than"):
                resolved(shell, ROOTS)
            shell.run(("sh", "-c", "mount -t tmpfs -o mode=755,nosuid none /opt/pg/bin", "sh"), root=True)  # fmt: skip
            shell.run(("cp", "/bin/true", "/opt/pg/bin/pg_test_fsync"), root=True)
            with pytest.raises(AgentError, match="/opt/pg/bin is mounted nosuid"):
                resolved(shell, ROOTS)
    finally:
        rig_host.ssh("sh", "-c", "umount -q /opt/pg/bin; rm -rf /opt/pg /opt/current /home/u")
