// SPDX-License-Identifier: Apache-2.0
/* A list to tick, found by words of its names: [data-finds] has the list's id. All of it is in the page, so that it works
   without this, and what is hidden stays ticked. Each word must be there, whatever its case, as on lists (web/lists.py). */
"use strict";

(() => {
  function picker(find) {
    const rows = [...document.getElementById(find.dataset.finds).children];
    const said = find.nextElementSibling;

    function show() {
      const text = find.value.trim();
      const words = text.toLowerCase().split(/\s+/);
      let found = 0;
      for (const row of rows) {
        const name = row.textContent.toLowerCase();
        const has = words.every((word) => name.includes(word));
        found += has;
        row.hidden = !has && !row.querySelector(":checked");
      }
      said.textContent = !text ? "" : found ? `${found} of ${rows.length}` : `None has “${text}”.`;
    }

    find.addEventListener("input", show);
    /* Nothing was chosen by it. */
    find.addEventListener("change", (event) => event.stopPropagation());
    find.addEventListener("keydown", (event) => {
      if (event.key === "Enter") event.preventDefault(); /* it would create the campaign */
    });
    find.hidden = false;
    show();
  }

  document.querySelectorAll("[data-finds]").forEach(picker);
})();
