"""Anything that a host printed or somebody uploaded is handed out as a file that no browser shows as a page of ours."""

from __future__ import annotations

import pytest

from benchlab.runs import outputs
from benchlab.runs.models import Artifact


@pytest.fixture
def addresses(rows) -> list[str]:
    found = []
    for artifact in rows.attempts[0].artifacts.all():
        found += [f"/artifacts/{artifact.pk}/", f"/api/artifacts/{artifact.pk}/content/"]
    return [*found, f"/sources/{rows.source.pk}/", f"/api/sources/{rows.source.pk}/content/",
            f"/attempts/{rows.attempts[0].pk}/series.csv", f"/campaigns/{rows.campaign.pk}/numbers.csv"]  # fmt: skip


def test_files_are_attachments_in_a_sandbox(addresses, owner):
    for address in addresses:
        answer = owner.get(address)
        assert answer.status_code == 200, address
        assert answer["Content-Disposition"].startswith("attachment"), address
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert (
            answer["Content-Security-Policy"]
            == "default-src 'none'; sandbox; frame-ancestors 'none'"
        )
        assert not answer["Content-Type"].startswith(
            ("text/html", "image/svg", "application/xhtml")
        )


@pytest.mark.parametrize("small", [True, False])
def test_a_name_with_markup_and_newlines_makes_no_header(rows, owner, monkeypatch, small):
    """Neither of a file that is given at once, nor of one in parts."""
    if not small:
        monkeypatch.setattr(outputs, "SMALL_BYTES", -1)
    artifact = rows.attempts[0].artifacts.first()
    Artifact.objects.filter(pk=artifact.pk).update(
        name='a"\r\nSet-Cookie: x=1\r\n\r\n<script>.html'
    )
    for address in (f"/artifacts/{artifact.pk}/", f"/api/artifacts/{artifact.pk}/content/"):
        answer = owner.get(address)
        assert answer.status_code == 200
        assert "\n" not in answer["Content-Disposition"] and "x" not in answer.cookies
