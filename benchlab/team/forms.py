# SPDX-License-Identifier: Apache-2.0
"""Forms of accounts and teams."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import (
    password_validators_help_text_html,
    validate_password,
)
from django.core.exceptions import ValidationError

from benchlab.team.models import Invitation, Team
from benchlab.team.roles import Role


class NewAccount(forms.ModelForm):  # type: ignore[type-arg]
    """Form with which an invited person makes an account."""

    password = forms.CharField(
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=password_validators_help_text_html,
    )

    class Meta:
        model = User
        fields = ("username", "email")
        labels = {"username": "Name", "email": "E-mail"}
        help_texts = {
            "username": "To log in, and for others to see: letters, digits and @ . + - _",
            "email": "Optional; for a forgotten password.",
        }
        widgets = {"username": forms.TextInput(attrs={"autocomplete": "username"})}

    def clean_username(self) -> str:
        name: str = self.cleaned_data["username"]
        # The login does not distinguish Alice from alice.
        if User.objects.filter(username__iexact=name).exists():
            raise ValidationError("That name is taken.")
        return name

    def clean(self) -> dict[str, Any]:
        """Refuse a password that resembles the name or the e-mail address, as well as a weak one."""
        values: dict[str, Any] = super().clean() or {}
        person = User(username=values.get("username", ""), email=values.get("email", ""))
        if password := values.get("password"):
            try:
                validate_password(password, person)
            except ValidationError as error:
                self.add_error("password", error)
        return values

    def save(self, commit: bool = True) -> User:
        user: User = super().save(commit=False)
        user.set_password(self.cleaned_data["password"])
        if commit:
            user.save()
        return user


class EmailForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = User
        fields = ("email",)
        labels = {"email": "E-mail"}


class TeamSettings(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Team
        fields = ("name", "require_mfa", "keep_raw_days")
        labels = {"require_mfa": "Every member needs a second factor"}


class NewTeam(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Team
        fields = ("name",)


class InviteForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Invitation
        fields = ("role", "email")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["email"].required = False


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=Role.choices)
