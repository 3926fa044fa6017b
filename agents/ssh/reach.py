# SPDX-License-Identifier: Apache-2.0
"""Addresses that may be connected to, and a socket to one of them.

A name is resolved once: what was checked is what is connected to, so a name that changes its mind gains nothing.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
from collections.abc import Iterable, Sequence

from agents.contracts import AgentError, Reason
from agents.ssh import names

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
# Where no host to measure is, but a cloud's metadata may be, with its keys. This machine itself is allowed.
NEVER = (
    "169.254.0.0/16",
    # link-local: metadata of most clouds
    "fe80::/10",
    "fd00:ec2::254/128",
    "100.100.100.200/32",
    # metadata elsewhere
    "192.0.0.192/32",
    "0.0.0.0/8",
    "::/128",
    "224.0.0.0/4",
    "ff00::/8",
    # nobody's
    "240.0.0.0/4",
)
NAT64 = ipaddress.ip_network("64:ff9b::/96")


def networks(texts: Iterable[str]) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """Parse networks. Raises ValueError with the text that is no network."""
    return tuple(ipaddress.ip_network(text) for text in texts)


def forbidden(address: str, nets: Iterable[str]) -> str:
    """The network of `nets` in which the address is, or the IPv4 address that it stands for; "" when in none."""
    addresses = meanings(address)
    for net in networks(nets):
        if any(
            address_meant.version == net.version and address_meant in net
            for address_meant in addresses
        ):
            return str(net)
    return ""


def meanings(address: str) -> list[IPAddress]:
    """The address, and IPv4 addresses in it that a kernel, a relay or a gateway would go on to."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv4Address):
        return [parsed]
    inner = [parsed.ipv4_mapped, parsed.sixtofour, *(parsed.teredo or ())]
    if parsed in NAT64:
        inner.append(ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF))
    return [parsed, *(inner_address for inner_address in inner if inner_address is not None)]


async def connected(
    host: str, port: int, nets: Sequence[str], group: int | None = None
) -> socket.socket:
    """A socket to the first address of the host that answers. Raises OSError, and AgentError FORBIDDEN_ADDRESS when
    any address of it is in one of `nets`. `group`: see names.py."""
    addresses = await names.resolve_host(host, group)
    for _, _, _, _, where in addresses:
        if net := forbidden(str(where[0]), nets):
            raise AgentError(
                f"{host} is {where[0]}, in {net}, where no host is allowed. If this is intended, remove that network "
                "from BENCHLAB_FORBID_NETS",
                Reason.FORBIDDEN_ADDRESS,
            )
    failed: OSError = OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
    for family, kind, protocol, _, where in addresses:
        try:
            to = (where[0], port, *where[2:])
            return await _connect_socket(socket.socket(family, kind, protocol), to)
        except OSError as error:
            failed = error
    raise failed


async def _connect_socket(connecting: socket.socket, where: tuple[object, ...]) -> socket.socket:
    try:
        connecting.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connecting, where)
    except BaseException:
        connecting.close()
        raise
    return connecting
