// SPDX-License-Identifier: Apache-2.0
/* The builder of topologies: layers are dragged, moved and removed by keys, and shown with their options. What fits, what
   is wrong and what it comes to, the server says: each act here presses a button of the form. */
"use strict";

(() => {
  const byId = (id) => document.getElementById(id);
  const layers = () => document.querySelectorAll("a.lay[data-layer]");
  const at = (card) => Number(card.dataset.layer);

  function act(words) {
    const button = byId("builder-act");
    button.value = words;
    button.click();
  }

  /* The layer whose options are open is marked in the drawing, and the server is told. */
  function choose(number) {
    for (const one of layers()) {
      if (at(one) === number) one.setAttribute("aria-current", "true");
      else one.removeAttribute("aria-current");
    }
    byId("builder-at").value = number;
  }

  function open(number) {
    const options = byId(`options-${number}`);
    if (options) options.open = true; /* it closes the others: they share a name */
    choose(number);
  }

  document.addEventListener("focusin", (event) => {
    const card = event.target.closest?.("a.lay[data-layer]");
    if (card) open(at(card));
  });
  /* "toggle" does not rise; it is seen on its way down. */
  document.addEventListener(
    "toggle",
    (event) => {
      if (event.target.classList?.contains("layer-options") && event.target.open) choose(at(event.target));
    },
    true,
  );
  document.addEventListener("click", (event) => {
    const option = event.target.closest?.("a[data-option]");
    if (option) open(Number(option.dataset.option) - 1);
    const card = event.target.closest?.("a.lay[data-layer]");
    if (!card) return;
    event.preventDefault();
    open(at(card));
    if (!event.detail) byId(`layer-${at(card) + 1}`)?.querySelector("input, select, textarea")?.focus(); /* by Enter */
    else if (!matchMedia("(min-width: 72rem)").matches) byId(`options-${at(card)}`)?.scrollIntoView();
  });

  const KEYS = {
    ArrowUp: (number, top) => number < top && `move ${number} ${number + 1}`,
    ArrowDown: (number) => number > 0 && `move ${number} ${number - 1}`,
    Delete: (number) => `remove ${number}`,
  };
  document.addEventListener("keydown", (event) => {
    const card = event.target.closest?.("a.lay[data-layer]");
    const key = KEYS[event.key];
    if (!card || !key || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault(); /* at an end, too: the page must not scroll away under who moves a layer */
    const words = key(at(card), layers().length - 1);
    if (words) act(words);
  });
  document.addEventListener("keydown", (event) => {
    const gap = event.key === "Escape" && event.target.closest?.(".plus[open]");
    if (!gap) return;
    gap.open = false;
    gap.querySelector("summary").focus();
  });

  /* Dragged into a gap it lies there; onto another layer it takes that one's place. */
  let dragged = null;
  const spot = (event) => dragged !== null && event.target.closest?.("a.lay[data-layer], .plus[data-gap]");

  function place(target) {
    if (target.dataset.layer) return at(target);
    const gap = Number(target.dataset.gap);
    return gap > dragged ? gap - 1 : gap;
  }

  const unmark = () => document.querySelectorAll(".over").forEach((one) => one.classList.remove("over"));

  document.addEventListener("dragstart", (event) => {
    const card = event.target.closest?.("a.lay[data-layer]");
    if (!card) return;
    dragged = at(card);
    card.classList.add("dragged");
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", card.textContent);
  });
  document.addEventListener("dragover", (event) => {
    const target = spot(event);
    if (!target) return;
    event.preventDefault();
    unmark();
    if (place(target) !== dragged) target.classList.add("over");
  });
  document.addEventListener("drop", (event) => {
    const target = spot(event);
    if (!target) return;
    event.preventDefault();
    if (place(target) !== dragged) act(`move ${dragged} ${place(target)}`);
  });
  document.addEventListener("dragend", () => {
    dragged = null;
    unmark();
    document.querySelectorAll(".dragged").forEach((one) => one.classList.remove("dragged"));
  });

  /* While somebody types, what was unfolded stays so, and a field that is wrong says so to a screen reader. */
  let unfolded = [];
  document.addEventListener("htmx:beforeSwap", (event) => {
    const whole = event.detail.target.id === "topology-builder";
    unfolded = whole ? [] : [...document.querySelectorAll(".plus[open]")].map((one) => one.id);
  });
  document.addEventListener("htmx:afterSettle", () => {
    for (const id of unfolded) byId(id)?.setAttribute("open", "");
    for (const said of document.querySelectorAll(".said[id]")) {
      const field = byId(said.id.slice("said-".length));
      if (field && said.childElementCount) field.setAttribute("aria-invalid", "true");
      else field?.removeAttribute("aria-invalid");
    }
    choose(Number(byId("builder-at").value));
  });

  /* Who leaves the page and comes back by the browser's button finds what was built; what was saved is saved. */
  const form = byId("topology-form");
  const kept = `builder ${location.pathname}${location.search}`;
  let saved = false;
  form.addEventListener("submit", (event) => (saved = event.submitter?.name === "save"));
  addEventListener("pagehide", () => {
    if (saved) sessionStorage.removeItem(kept);
    else sessionStorage.setItem(kept, new URLSearchParams(new FormData(form)).toString());
  });
  const draft = new URLSearchParams(sessionStorage.getItem(kept) ?? "");
  if (draft.has("kind") && performance.getEntriesByType("navigation")[0]?.type === "back_forward") {
    draft.delete("csrfmiddlewaretoken");
    draft.set("do", "again"); /* no button's word: all of the builder is drawn anew, and nothing is changed */
    const values = Object.fromEntries([...draft.keys()].map((name) => [name, draft.getAll(name)]));
    htmx.ajax("POST", location.href, { target: "#topology-builder", swap: "outerHTML", values });
  }
})();
