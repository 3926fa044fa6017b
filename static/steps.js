// SPDX-License-Identifier: Apache-2.0
/* Steps of plans and of what is being built: a plan's commands are copied, and what goes on is counted by the second. */
"use strict";

(() => {
  const SAID_MS = 4000;

  /* By a field that is there for a moment: pages without TLS get no clipboard from the browser. */
  function copied(text) {
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.copy");
    if (!button || button.classList.contains("copied")) return;
    const done = copied(button.previousElementSibling.textContent);
    button.focus({ preventScroll: true }); /* its line shows all of the command while it has it */
    if (!done) return;
    const label = button.getAttribute("aria-label");
    button.classList.add("copied");
    button.setAttribute("aria-label", "Copied");
    setTimeout(() => {
      button.classList.remove("copied");
      button.setAttribute("aria-label", label);
    }, SAID_MS);
  });

  /* [data-ticks] has the seconds that had gone by when the server said so. */
  const began = new WeakMap();
  const two = (number) => String(number).padStart(2, "0");

  function clock(seconds) {
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
    const rest = two(Math.floor(seconds) % 60);
    return hours ? `${hours}:${two(minutes)}:${rest}` : `${minutes}:${rest}`;
  }

  function tick() {
    const now = performance.now() / 1000;
    for (const one of document.querySelectorAll("[data-ticks]")) {
      if (!began.has(one)) began.set(one, now - Number(one.dataset.ticks));
      one.textContent = clock(now - began.get(one));
    }
  }

  tick();
  setInterval(tick, 1000);
})();
