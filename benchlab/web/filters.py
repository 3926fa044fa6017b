# SPDX-License-Identifier: Apache-2.0
"""Filtering and ordering of the API's lists. What cannot be understood is refused, never passed over:
a misspelt filter would otherwise give every row, and a notebook would average the wrong ones; a misspelt value would
give none, as if nothing had been measured. What may be any text (a name, a serial) finds what there is of it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any

import django_filters
from django import forms
from django.db import models
from django.db.models import QuerySet
from django_filters.rest_framework import DjangoFilterBackend, FilterSet
from drf_spectacular.utils import extend_schema_field
from rest_framework.exceptions import ValidationError
from rest_framework.filters import BaseFilterBackend, OrderingFilter
from rest_framework.request import Request

# that a refusal lists
MAX_LISTED_WORDS = 30
# rows whose words it knows
MAX_SAMPLED_ROWS = 5000
# PostgreSQL's bigint: a larger number would be an error of the server's
MAX_BIGINT = 2**63 - 1
COMMON_PARAMETERS = ("page", "page_size", "cursor", "ordering", "fields")
LIBRARY = "library"
ARCHIVED = "archived"
# Whose parts a list's rows are: asked for one of these, it has all of it, also of an archived campaign.
PARENT_PARAMETERS = frozenset({"campaign", "run", "layout", "attempt"})


def form_error(message: str) -> forms.ValidationError:
    """Return an error of a form. The message may contain a person's text, so % in it must not be interpolated."""
    return forms.ValidationError("%(said)s", params={"said": message})


class WholeNumberField(forms.IntegerField):
    def to_python(self, value: Any) -> int | None:
        try:
            return super().to_python(value)
        except forms.ValidationError:
            raise form_error(f"Give a whole number, not {shortened(value)}.") from None


@extend_schema_field({"type": "integer", "minimum": 0, "maximum": MAX_BIGINT})
class WholeNumberFilter(django_filters.NumberFilter):  # type: ignore[misc]  # untyped library
    """A whole number; also a foreign key. An id of another team finds nothing, as one that nobody has."""

    field_class = WholeNumberField

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # what django-filter gives to a choice of rows
        for name in ("queryset", "to_field_name"):
            kwargs.pop(name, None)
        super().__init__(*args, min_value=0, max_value=MAX_BIGINT, **kwargs)


class TrueOrFalseField(forms.Field):
    def to_python(self, value: Any) -> bool | None:
        if value in self.empty_values:
            return None
        values = {"true": True, "false": False}
        if str(value).lower() not in values:
            raise form_error(f"Give true or false, not {shortened(value)}.")
        return values[str(value).lower()]


class TrueOrFalseFilter(django_filters.BooleanFilter):  # type: ignore[misc]
    field_class = TrueOrFalseField


class StrictChoiceField(django_filters.fields.ChoiceField):  # type: ignore[misc]
    def validate(self, value: Any) -> None:
        forms.Field.validate(self, value)
        if value and not self.valid_value(value):
            raise form_error(unknown_word_message(value, (word for word, _ in self.choices)))


class StrictChoiceFilter(django_filters.ChoiceFilter):  # type: ignore[misc]
    """A word of a column that has choices."""

    field_class = StrictChoiceField


class KnownWordFilter(django_filters.CharFilter):  # type: ignore[misc]
    """A word of a column without choices: one of `known_words`, or one that the person's own rows have.

    Imported results tell of tools and samplers that nobody here knows, and people name their own roles.
    """

    def __init__(self, known_words: Callable[[], Iterable[str]] = tuple, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.known = known_words

    def filter(self, qs: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Raises ValueError for a word that is nobody's; one that only these rows do not have finds nothing."""
        rows: QuerySet[Any] = super().filter(qs, value)
        if not value or value in (words := set(self.known())) or rows.exists():
            return rows
        every: QuerySet[Any] = self.parent.queryset
        if not super().filter(every, value).exists():
            newest = every.order_by("-pk").values_list(self.field_name, flat=True)[
                :MAX_SAMPLED_ROWS
            ]
            raise ValueError(unknown_word_message(value, {*newest, *words}))
        return rows


def unknown_word_message(value: object, allowed: Iterable[str]) -> str:
    """Refusal of a word, with those that there are; of many, first those that are most like it."""
    words = sorted({word for word in allowed if word})
    if len(words) > MAX_LISTED_WORDS:
        near = difflib.get_close_matches(str(value)[:60], words, n=3)
        words = [*near, *(word for word in words if word not in near)][:MAX_LISTED_WORDS]
    return f"{shortened(value)} is not one of them; there are {', '.join(words) or 'none'}."


def shortened(value: object) -> str:
    return repr(str(value)[:40])


class StrictFilterSet(FilterSet):  # type: ignore[misc]
    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Raises ValidationError for a value that its filter does not know, or that is given more than once."""
        for name, value in self.form.cleaned_data.items():
            if len(texts := self.data.getlist(name)) > 1:
                raise ValidationError({name: [f"Given {len(texts)} times; give it once."]})
            try:
                queryset = self.filters[name].filter(queryset, value)
            except ValueError as error:
                raise ValidationError({name: [str(error)]}) from None
        return queryset

    @classmethod
    def filter_for_lookup(cls, field: models.Field[Any, Any], lookup: str) -> tuple[Any, Any]:
        filter_class, kwargs = super().filter_for_lookup(field, lookup)
        return (
            StrictChoiceFilter if filter_class is django_filters.ChoiceFilter else filter_class,
            kwargs,
        )

    FILTER_DEFAULTS = {
        **FilterSet.FILTER_DEFAULTS,
        models.ForeignKey: {"filter_class": WholeNumberFilter},
        models.PositiveIntegerField: {"filter_class": WholeNumberFilter},
        models.PositiveSmallIntegerField: {"filter_class": WholeNumberFilter},
        models.BooleanField: {"filter_class": TrueOrFalseFilter},
    }


class StrictFilterBackend(DjangoFilterBackend):  # type: ignore[misc]
    """Only of lists: one row is asked for by its id."""

    filterset_base = StrictFilterSet

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: Any) -> Any:
        if view.detail:
            return queryset
        chosen = self.get_filterset_class(view, queryset)
        parameters = [*(chosen.base_filters if chosen else ()), *COMMON_PARAMETERS]
        parameters += [LIBRARY] if view.library else []
        parameters += [ARCHIVED] if view.archives else []
        unknown = [name for name in request.query_params if name not in parameters]
        if unknown:
            raise ValidationError(
                {
                    name: [f"No such parameter; there are {', '.join(parameters)}."]
                    for name in unknown
                }
            )
        return super().filter_queryset(request, queryset, view)


class SwitchFilterBackend(BaseFilterBackend):
    """`name=true` of views that have `attribute`. Which rows these are: benchlab.web.api.TeamViewSet."""

    name: str
    attribute: str
    description: str

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: Any) -> Any:
        choice = request.query_params.get(self.name, "true")
        switches = getattr(view, self.attribute) and not view.detail
        if switches and choice.lower() not in ("true", "false"):
            raise ValidationError({self.name: [f"Give true or false, not {shortened(choice)}."]})
        return queryset

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        if not getattr(view, self.attribute):
            return []
        return [
            {
                "name": self.name,
                "in": "query",
                "required": False,
                "description": self.description,
                "schema": {"type": "boolean"},
            }
        ]


class LibraryFilterBackend(SwitchFilterBackend):
    name = LIBRARY
    attribute = "library"
    description = "Also the rows of the reference library"


class ArchivedFilterBackend(SwitchFilterBackend):
    name = ARCHIVED
    attribute = "archives"
    description = (
        "true: what is archived, and nothing else. Without it such rows are left out, unless a "
        "campaign, run, layout or attempt is asked for"
    )


class StableOrderingFilter(OrderingFilter):
    """`ordering=-size,name`; ties are broken by id, or pages would repeat rows and miss others."""

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: Any) -> Any:
        if view.detail:
            return queryset
        ordering = request.query_params.get(self.ordering_param, "")
        terms = [term.strip() for term in ordering.split(",") if term.strip()]
        if unknown := [term for term in terms if term not in self._terms(view)]:
            fields = ", ".join(view.ordering_fields)
            raise ValidationError(
                {self.ordering_param: [f"Cannot order by {', '.join(unknown)}; only by {fields}."]}
            )
        terms = terms or list(view.ordering)
        if not {"id", "-id"} & set(terms):
            # The same way as the last of them: an index on both is then read in order, forwards or backwards.
            terms.append("-id" if terms[-1].startswith("-") else "id")
        return queryset.order_by(*(order_column(queryset, term) for term in terms))

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        terms = {"type": "string", "enum": self._terms(view)}
        return [
            {
                "name": self.ordering_param,
                "in": "query",
                "required": False,
                "description": "Fields, comma-separated; - in front: descending",
                "schema": {"type": "array", "items": terms},
                "style": "form",
                "explode": False,
            }
        ]

    def _terms(self, view: Any) -> list[str]:
        return [sign + field for field in view.ordering_fields for sign in ("", "-")]


def order_column(queryset: QuerySet[Any], term: str) -> str:
    """A row of another table is ordered by its id; Django would take that table's own order."""
    name = term.removeprefix("-")
    return term.removesuffix(name) + str(queryset.model._meta.get_field(name).attname)
