"""A newcomer's walk: log in to an installation and follow every link there is, as the pages themselves give them.

What differs between an installation and the tests' own server (files with hashed names, processes of their own) is
seen here alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html import unescape
from urllib.error import HTTPError
from urllib.parse import urlencode, urljoin, urlsplit
from urllib.request import HTTPCookieProcessor, Request, build_opener

LINK = re.compile(r'(?:href|src|hx-get|data-figure|data-url)="([^"]+)"')
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
ALIKE = 2  # of addresses that differ in their numbers or in what is asked, so many
NEVER_ENDS = "/events/"


class Walk:
    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.opener = build_opener(HTTPCookieProcessor())

    def log_in(self, name: str, password: str) -> None:
        """Raises HTTPError, or AssertionError where the log-in stays."""
        place = f"{self.url}/login/"
        [token, *_] = TOKEN.findall(self.opener.open(place).read().decode())
        given = {"csrfmiddlewaretoken": token, "login": name, "password": password}
        sent = Request(place, urlencode(given).encode(), {"Referer": place})
        assert self.opener.open(sent).geturl() == f"{self.url}/"

    def campaigns(self, address: str) -> set[str]:
        """Campaigns that a page leads to."""
        return {link for link in self._links(address) if re.fullmatch(r"/campaigns/\d+/", link)}

    def everywhere(self) -> tuple[set[str], list[str]]:
        """Addresses that answered, and "STATUS ADDRESS" of those that did not."""
        todo, seen, wrong = ["/"], {"/"}, list[str]()
        alike = Counter[str]()
        while todo:
            address = todo.pop()
            try:
                found = list(self._links(address))
            except HTTPError as error:
                wrong.append(f"{error.code} {address}")
                continue
            for one in found:
                kind = re.sub(r"\d+", "N", one.partition("?")[0]) + "?" * ("?" in one)
                if one not in seen and alike[kind] < ALIKE and NEVER_ENDS not in one:
                    alike[kind] += 1
                    seen.add(one)
                    todo.append(one)
        return seen, wrong

    def _links(self, address: str) -> Iterator[str]:
        """Of a page, to the same installation, without what comes after #."""
        with self.opener.open(self.url + address, timeout=60) as answer:
            text = answer.read()
            if "html" not in answer.headers.get("Content-Type", ""):
                return
        for link in LINK.findall(text.decode()):
            there = urljoin(self.url + address, unescape(link)).partition("#")[0]
            if urlsplit(there).netloc == urlsplit(self.url).netloc:
                yield there.removeprefix(self.url)
