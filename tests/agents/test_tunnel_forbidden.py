"""A server that forbids forwarding refuses the tunnel in words, so that only the run that wanted it is lost."""

from __future__ import annotations

import pytest

from agents.contracts import AgentError, Reason
from agents.ssh import shell
from tests.agents import sshd


@pytest.mark.parametrize("line", ["AllowTcpForwarding no", "DisableForwarding yes"])
def test_an_sshd_that_forbids_it(line, tmp_path, monkeypatch):
    monkeypatch.setattr(sshd, "CONFIG", sshd.CONFIG + line + "\n")
    with sshd.sshd(tmp_path) as address:
        refused(address)


def refused(address: shell.Address) -> None:
    with pytest.raises(
        AgentError, match=r"refused to forward a port for dynamo .*AllowTcpForwarding"
    ) as raised:
        shell.Tunnel(address)
    assert raised.value.reason is Reason.COMMAND_FAILED
