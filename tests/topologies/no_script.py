"""A page's form in a browser without script: what stands in it is sent, with the button that was pressed."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from django.test import Client


class Form(HTMLParser):
    """The form with this id: `fields` as a browser would send them, `buttons` as (name, value, words)."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(convert_charrefs=True)
        self.wanted = name
        self.inside = False
        self.fields: list[tuple[str, str]] = []
        self.buttons: list[tuple[str, str, str]] = []
        self._open: tuple[str, Any] | None = None  # a select, textarea or button that is being read
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.inside = told.get("id") == self.wanted
        if not self.inside:
            return
        if tag == "input" and told.get("name"):
            ticked = told.get("type") not in ("checkbox", "radio") or "checked" in told
            if ticked:
                self.fields.append((told["name"], told.get("value", "on" * ("checked" in told))))
        elif tag in ("select", "textarea", "button") and told.get("name"):
            self._open = (tag, {**told, "text": "", "chosen": None, "first": None})
        elif tag == "option" and self._open:
            of = self._open[1]
            of["first"] = told["value"] if of["first"] is None else of["first"]
            of["chosen"] = told["value"] if "selected" in told else of["chosen"]

    def handle_data(self, data: str) -> None:
        if self._open:
            self._open[1]["text"] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self.inside = False
        if not self._open or self._open[0] != tag:
            return
        told, self._open = self._open[1], None
        if tag == "button":
            self.buttons.append(
                (told["name"], told.get("value", ""), " ".join(told["text"].split()))
            )
        elif tag == "textarea":
            self.fields.append((told["name"], told["text"].removeprefix("\n")))
        else:
            value = told["first"] if told["chosen"] is None else told["chosen"]
            self.fields.append((told["name"], value or ""))


class Visitor:
    """Person who presses buttons of one form, and types."""

    def __init__(self, web: Client, url: str, name: str = "topology-form") -> None:
        self.web, self.url, self.name = web, url, name
        self.answer: Any = web.get(url)
        self.typed: dict[str, str] = {}
        self.ticked: dict[str, list[str]] = {}

    @property
    def form(self) -> Form:
        return Form(self.answer.text, self.name)

    def type(self, **fields: str) -> None:
        """`layer0__data__count`: hyphens are written so."""
        self.typed |= {name.replace("__", "-"): value for name, value in fields.items()}

    def tick(self, name: str) -> None:
        """A box that is not ticked: of such ones a form sends nothing."""
        assert f'type="checkbox" name="{name}"' in self.answer.text
        self.ticked[name] = ["1"]

    def press(self, words: str, value: str | None = None) -> None:
        """The first button with these words, or this value."""
        form = self.form
        name, value = next(
            (name, sent)
            for name, sent, said in form.buttons
            if said.startswith(words) and value in (None, sent)
        )
        data: dict[str, list[str]] = {}
        for field, stands in form.fields:
            data.setdefault(field, []).append(self.typed.pop(field, stands))
        assert not self.typed, f"no field {self.typed}"
        self.answer = self.web.post(self.url, {**data, **self.ticked, name: value})
        self.ticked = {}
