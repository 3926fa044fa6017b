// SPDX-License-Identifier: Apache-2.0
/* The wall screen: Escape leaves it. A session that ended shows the login's page as a whole, and not as a part. */
"use strict";

(() => {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") document.getElementById("wall-leave").click();
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.serverResponse.includes('id="' + event.detail.target.id + '"')) return;
    event.detail.shouldSwap = false;
    if (event.detail.xhr.status < 400) location.reload();
  });
})();
