"""The form for another name."""

from __future__ import annotations

from typing import Any

from django import forms

from benchlab.lifecycle.kinds import Noun, noun_of

WAS = "was-"  # what a field showed when the page was made


class RenameForm(forms.Form):
    """A name, and what else is said of the row; each with what the person saw, so that nothing is lost unseen."""

    def __init__(self, row: Any, data: Any = None) -> None:
        self.noun: Noun = noun_of(row)
        super().__init__(data, initial={name: getattr(row, name) for name in self.noun.fields})
        for name in self.noun.fields:
            of_model = row._meta.get_field(name)
            self.fields[name] = (
                forms.CharField(max_length=of_model.max_length)
                if name == "name"
                else forms.CharField(required=False, widget=forms.Textarea(attrs={"rows": 3}))
            )

    @property
    def before(self) -> dict[str, str]:
        """As a browser sends it back: with its own ends of lines."""
        return {
            name: self.data.get(f"{WAS}{name}", "").replace("\r\n", "\n")
            for name in self.noun.fields
        }

    @property
    def wanted(self) -> dict[str, str]:
        return {name: self.cleaned_data[name].replace("\r\n", "\n") for name in self.noun.fields}
