# SPDX-License-Identifier: Apache-2.0
"""Addresses that may be connected to, and a socket to one of them.

A name is resolved once: what was checked is what is connected to, so a name that changes its mind gains nothing. A
thread of its own looks up each name: a name whose server is silent holds up nobody else. The resolver cannot be
interrupted, takes many seconds to give up, and asyncio has few threads for it. So that nobody takes all threads of the
process, a group (a team) has a share.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import os
import socket
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from agents.contracts import AgentError, Reason

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
    addresses = await resolve_host(host, group)
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


AT_ONCE, OF_GROUP = 64, 16
AddressInfos = list[tuple[Any, ...]]

# By name, and how many each group has
_under_way: dict[str, asyncio.Future[AddressInfos]] = {}
_of_group: Counter[int | None] = Counter()
_counting = threading.Lock()


def _forget_threads() -> None:
    """After a fork the threads are gone."""
    global _counting
    _counting = threading.Lock()
    _under_way.clear()
    _of_group.clear()


os.register_at_fork(after_in_child=_forget_threads)


async def resolve_host(host: str, group: int | None) -> AddressInfos:
    """Addresses of the host, as of socket.getaddrinfo. Raises OSError, and AgentError when the group has its share."""
    try:
        return socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        # a name
        pass
    with _counting:
        answer = _under_way.get(host) or _start_lookup(host, group)
    # Who waits no longer leaves the thread to whoever asks next.
    return await asyncio.shield(answer)


def _start_lookup(host: str, group: int | None) -> asyncio.Future[AddressInfos]:
    if _of_group[group] >= OF_GROUP or _of_group.total() >= AT_ONCE:
        raise AgentError(
            f"{host}: too many names are being looked up, and their server does not answer; check this server's DNS, "
            "or use IP addresses",
            Reason.TIMED_OUT,
        )
    loop = asyncio.get_running_loop()
    future = _under_way[host] = loop.create_future()
    _of_group[group] += 1

    def look_up() -> None:
        answer: AddressInfos | OSError
        try:
            answer = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
        except OSError as error:
            answer = error
        except UnicodeError as error:
            answer = socket.gaierror(socket.EAI_NONAME, f"no name: {error}")
        with _counting:
            _of_group[group] -= 1
            del _under_way[host]
        # the loop was closed
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_set_answer, future, answer)

    threading.Thread(target=look_up, name=f"look up {host}", daemon=True).start()
    return future


def _set_answer(future: asyncio.Future[AddressInfos], answer: AddressInfos | OSError) -> None:
    if isinstance(answer, OSError):
        future.set_exception(answer)
        # seen, should nobody wait any more
        future.exception()
    else:
        future.set_result(answer)
