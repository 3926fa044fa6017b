# SPDX-License-Identifier: Apache-2.0
"""Sphinx builds the documents as a site: python -m sphinx -W -b html . DIRECTORY.

The pages are those that forges and the app itself show. README.md is the first one, and its navigation is added here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "benchlab" / "__init__.py").read_text())

project = "BenchLab"
copyright = "BenchLab's contributors"
release = VERSION[1] if VERSION else ""
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/decisions/*.md", "docs/look/*.md"]
html_theme = "furo"
html_title = f"BenchLab {release}"
html_favicon = "static/icon.svg"
html_show_sphinx = False
# Links to a heading, as forges make them.
myst_heading_anchors = 4
# Forges list the files of a directory that is linked; the site shows the link as text.
nitpick_ignore = [("myst", path.name) for path in (ROOT / "docs").iterdir() if path.is_dir()]

# Captions of the navigation, and their pages in order; a page that is in none of them fails the build.
NAVIGATION = {
    "Measure": ["guide", "diagnosis", "method", "analysis", "claims", "layers", "faults"],
    "Run": ["deploying", "operating", "fallback-stores", "api"],
    "Change": [
        "design",
        "tests",
        "add-a-driver",
        "add-a-finding",
        "add-a-page",
        "add-a-rest-field",
        "look/README",
        "decisions/README",
    ],
}
PROJECT_PAGES = ["CONTRIBUTING", "CHANGELOG", "THREAT_MODEL", "SECURITY", "CODE_OF_CONDUCT"]


def toctree(caption: str, pages: list[str]) -> str:
    return "\n".join(
        ["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""]
    )


def add_navigation(app: Sphinx, name: str, source: list[str]) -> None:
    """Append the navigation to the pages that have pages below them."""
    if name == "README":
        for caption, pages in NAVIGATION.items():
            source[0] += toctree(caption, [f"docs/{page}" for page in pages])
        source[0] += toctree("Project", PROJECT_PAGES)
    elif name == "docs/decisions/README":
        records = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
        source[0] += toctree("Decisions", [record.stem for record in records])


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_navigation)
