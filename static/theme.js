/* Light, dark or what the system says: kept in a cookie, so that the server sends the right page at once. */
"use strict";

(() => {
  const ORDER = ["", "light", "dark"];
  const WORDS = { "": "automatic", light: "light", dark: "dark" };
  const root = document.documentElement;
  const button = document.getElementById("theme-toggle");
  const current = () => root.dataset.theme || "";

  function show() {
    button.lastElementChild.textContent = "Theme: " + WORDS[current()];
    button.hidden = false;
  }

  function choose(theme) {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    document.cookie = "theme=" + theme + "; path=/; SameSite=Lax; max-age=" + (theme ? 31536000 : 0);
    show();
    document.dispatchEvent(new CustomEvent("theme-changed"));
  }

  if (!button) return;
  button.addEventListener("click", () => choose(ORDER[(ORDER.indexOf(current()) + 1) % ORDER.length]));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    document.dispatchEvent(new CustomEvent("theme-changed")),
  );
  show();
})();
