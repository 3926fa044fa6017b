// SPDX-License-Identifier: Apache-2.0
/* What every page has: its theme (light, dark or what the system says; in a cookie, so that the server sends the right
   page at once), the header's search, and the focus where a part of the page is drawn anew. */
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

  function changed() {
    document.dispatchEvent(new CustomEvent("theme-changed"));
  }

  function choose(theme) {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    document.cookie = "theme=" + theme + "; path=/; SameSite=Lax; max-age=" + (theme ? 31536000 : 0);
    show();
    changed();
  }

  if (!button) return;
  button.addEventListener("click", () => choose(ORDER[(ORDER.indexOf(current()) + 1) % ORDER.length]));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  show();
})();

/* "/" goes to the search, Escape and a click elsewhere close what it found. Without this it is a form. */
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
    if (event.key !== "Escape") return;
    if (found.contains(document.activeElement)) input.focus();
    found.replaceChildren();
    if (event.target === input && !input.value) input.blur(); /* on a phone it lies over the bar */
  });
  document.addEventListener("click", (event) => {
    if (!found.contains(event.target) && event.target !== input) found.replaceChildren();
  });
})();

/* htmx gives the focus back by an id. What has none is found in the nearest that has one: where it was or elsewhere,
   by its address or value and its words, else by its place. */
(() => {
  const STOPS = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]";
  const said = (one) => one && [one.href, one.name, one.value, one.textContent].join();
  let held = null;

  document.addEventListener("htmx:beforeSwap", () => {
    const one = document.activeElement;
    const within = one.id ? null : one.closest("[id]");
    held = within && { one, id: within.id, at: [...within.querySelectorAll(STOPS)].indexOf(one) };
  });
  document.addEventListener("htmx:afterSwap", () => {
    if (!held || held.one.isConnected || document.activeElement !== document.body) return;
    const stops = [...(document.getElementById(held.id)?.querySelectorAll(STOPS) ?? [])];
    const there = stops[held.at];
    const same = [there, ...stops].find((one) => said(one) === said(held.one)) ?? there;
    same?.focus({ preventScroll: true });
  });
})();
