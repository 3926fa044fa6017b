/* The header's search: "/" goes to it, Escape and a click elsewhere close what it found. Without this it is a form. */
"use strict";

(() => {
  const input = document.getElementById("search");
  const found = document.getElementById("search-found");
  if (!input || !found) return;
  const typing = (element) => element.closest("input, textarea, select, [contenteditable]");

  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !typing(event.target)) {
      event.preventDefault();
      input.focus();
      input.select();
    }
    if (event.key === "Escape" && found.contains(document.activeElement)) input.focus();
    if (event.key === "Escape") found.replaceChildren();
  });
  document.addEventListener("click", (event) => {
    if (!found.contains(event.target) && event.target !== input) found.replaceChildren();
  });
})();
