// SPDX-License-Identifier: Apache-2.0
/* A page to print: its charts are drawn in light colours for paper, and as before afterwards. */
"use strict";

(() => {
  const root = document.documentElement;
  const button = document.getElementById("do-print");
  let before = null;

  function theme(name) {
    if (name) root.dataset.theme = name;
    else delete root.dataset.theme;
    document.dispatchEvent(new CustomEvent("theme-changed"));
  }

  addEventListener("beforeprint", () => {
    before = root.dataset.theme || "";
    if (before !== "light") theme("light");
  });
  addEventListener("afterprint", () => {
    if (before !== null && before !== "light") theme(before);
    before = null;
  });
  /* A guest's page has no button for the theme: it follows the system. */
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    document.dispatchEvent(new CustomEvent("theme-changed")),
  );
  if (button) {
    button.hidden = false;
    button.addEventListener("click", () => print());
  }
})();
