# SPDX-License-Identifier: Apache-2.0
"""Forms of hosts, and their checks."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.validators import RegexValidator

from benchlab.hosts.models import Credential, Device, Host

# bytes; the longest RSA key is a tenth of it
KEY_FILE_MAX = 64 * 1024

validate_address = RegexValidator(
    r"^[0-9A-Za-z][0-9A-Za-z._-]*$|^[0-9A-Fa-f:.]+(%[0-9A-Za-z._-]+)?$",
    "Give a host name or an IP address alone, without brackets; user and port have their own fields.",
)
validate_user = RegexValidator(
    r"^[A-Za-z_][A-Za-z0-9_.@\\-]*\$?$", "That is not a user name as Unix knows them."
)


if TYPE_CHECKING:
    HostModelForm = forms.ModelForm[Host]
else:
    # generic to the type checker only
    HostModelForm = forms.ModelForm


class AddressForm(HostModelForm):
    """Form of a host's address. `key` is chosen among the person's own keys."""

    address = forms.CharField(
        max_length=255, validators=[validate_address], help_text="Host name or IP address"
    )
    port = forms.IntegerField(min_value=1, max_value=65535, initial=22)
    user = forms.CharField(
        max_length=64,
        validators=[validate_user],
        initial="root",
        help_text="root, or a user who may use sudo without a password",
    )

    class Meta:
        model = Host
        fields = ["name", "address", "port", "user", "credential", "notes"]
        widgets = {"notes": forms.Textarea(attrs={"rows": 2})}
        labels = {"credential": "SSH key"}

    def __init__(self, *args: Any, owner: AbstractBaseUser | AnonymousUser, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.owner = owner
        key = self.fields["credential"]
        assert isinstance(key, forms.ModelChoiceField)
        keys = Credential.objects.for_user(owner).order_by("name")
        key.queryset = keys.filter(team=self.instance.team_id) if self.instance.pk else keys


class AddForm(AddressForm):
    """The first step of adding a host: without a chosen key or an uploaded one, a pair is made."""

    private_key = forms.FileField(
        required=False,
        max_length=255,
        label="Or upload a private key",
        help_text="OpenSSH or PEM, without a passphrase. It is encrypted before it is stored.",
    )

    class Meta(AddressForm.Meta):
        pass

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        key = self.fields["credential"]
        assert isinstance(key, forms.ModelChoiceField)
        key.required = False
        key.empty_label = "Make a new key pair for this host"

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"].strip()
        if Host.objects.for_user(self.owner).filter(name=name).exists():
            raise forms.ValidationError(f"There is a host named {name} already.")
        return name

    def clean_private_key(self) -> str:
        """The uploaded text, "" when nothing was uploaded."""
        upload = self.cleaned_data.get("private_key")
        if not upload:
            return ""
        if upload.size > KEY_FILE_MAX:
            raise forms.ValidationError("That file is too big for a private key.")
        try:
            return str(upload.read().decode())
        except UnicodeDecodeError:
            raise forms.ValidationError(
                "That is not a text file; give the private key in OpenSSH or PEM form."
            ) from None

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if cleaned.get("credential") and cleaned.get("private_key"):
            raise forms.ValidationError("Choose one: a stored key, or an uploaded one.")
        return cleaned


class ConfirmKeyForm(forms.Form):
    """Form with the fingerprint, so that what is pinned is what was on the person's screen."""

    fingerprint = forms.CharField(max_length=100, widget=forms.HiddenInput)
    compared = forms.BooleanField(
        label="I compared it with what the host itself prints; they are the same.",
        error_messages={"required": "Compare the fingerprints first, then tick the box."},
    )


if TYPE_CHECKING:
    DeviceModelForm = forms.ModelForm[Device]
else:
    DeviceModelForm = forms.ModelForm


RATED_IOPS = "From its data sheet, or the cloud's; the larger one if reads and writes differ."


def rated_throughput() -> forms.DecimalField:
    """Form field for the throughput that a data sheet states."""
    return forms.DecimalField(
        label="Rated throughput (MB/s)",
        required=False,
        min_value=Decimal("0.001"),
        max_value=Decimal(10**9),
        decimal_places=6,
        help_text="In MB/s: millions of bytes a second. Leave it empty if unknown.",
        widget=forms.NumberInput(attrs={"step": "any"}),
    )


def megabytes_to_bytes(mega: Decimal | None) -> int | None:
    """Convert throughput typed in MB/s to B/s."""
    return None if mega is None else int(mega.scaleb(6))


class RatingForm(DeviceModelForm):
    """Form of a disk's rating. Throughput is typed in MB/s, as data sheets say it, and kept in B/s."""

    rated_mb = rated_throughput()

    class Meta:
        model = Device
        fields = ["rated_iops"]
        labels = {"rated_iops": "Rated IOPS"}
        help_texts = {"rated_iops": RATED_IOPS}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.rated_bandwidth:
            self.initial["rated_mb"] = (
                f"{Decimal(self.instance.rated_bandwidth).scaleb(-6).normalize():f}"
            )

    def save(self, commit: bool = True) -> Device:
        self.instance.rated_bandwidth = megabytes_to_bytes(self.cleaned_data["rated_mb"])
        if commit:
            self.instance.save(update_fields=["rated_iops", "rated_bandwidth"])
        return self.instance


class SpareForm(forms.Form):
    """Form to mark a disk spare. The services check what was typed."""

    role = forms.CharField(
        max_length=32,
        help_text="Topologies ask for disks by role: hdd, ssd, nvme, or a word of your own.",
        widget=forms.TextInput(attrs={"list": "roles", "autocomplete": "off"}),
    )
    typed = forms.CharField(max_length=300, widget=forms.TextInput(attrs={"autocomplete": "off"}))

    def __init__(self, *args: Any, device: Device, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        what = "serial number" if device.serial else "WWN" if device.wwn else "name and size"
        self.fields["typed"].label = f"Type its {what} to confirm"
        self.fields["typed"].help_text = f"Exactly: {device.confirmation}"
