# SPDX-License-Identifier: Apache-2.0
"""Names of hosts, each looked up by a thread of its own: a name whose server is silent holds up nobody else.

The resolver cannot be interrupted, and takes many seconds to give up; the threads that asyncio has for it are few. So
that nobody takes all threads of the process, a group (a team) has a share.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections import Counter
from typing import Any

from agents.contracts import AgentError, Reason

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
