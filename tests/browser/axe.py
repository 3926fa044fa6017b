"""axe-core on a Playwright page: what somebody with a screen reader or weak eyes would trip over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
# WCAG 2.2 AA, and what axe checks without being asked. Without the tags of 2.2 it leaves out the size of targets.
TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")

# From the top: what is scrolled half under the bar would count as too small.
RUN = """async (tags) => {
  const was = scrollY;
  scrollTo({top: 0, behavior: "instant"});
  const found = (await axe.run({runOnly: {type: "tag", values: tags}})).violations;
  scrollTo({top: was, behavior: "instant"});
  return found;
}"""


def violations(page: Any) -> list[str]:
    """One line per violation and element; [] is right. Goes around the page's CSP, as a browser extension does."""
    page.wait_for_load_state()  # a click waits until the new page begins, not for all of it and its styles
    page.evaluate(AXE.read_text())
    found = page.evaluate(RUN, list(TAGS))
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:160]} — {node['failureSummary'][:200]}"
        for one in found
        for node in one["nodes"]
    ]
