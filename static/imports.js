// SPDX-License-Identifier: Apache-2.0
/* Files dropped on the import page go into its file chooser. Without this, the chooser works alone. */
"use strict";

(() => {
  for (const box of document.querySelectorAll("[data-drop]")) {
    const input = document.getElementById(box.dataset.drop);
    const names = box.querySelector(".drop-names");
    box.querySelector(".drop-hint").hidden = false;

    const show = () => {
      names.replaceChildren();
      const files = [...input.files];
      for (const file of files.slice(0, 20)) {
        const item = document.createElement("li");
        item.textContent = `${file.name} (${Math.ceil(file.size / 1024)} KiB)`;
        names.append(item);
      }
      if (files.length > 20) {
        const item = document.createElement("li");
        item.textContent = `and ${files.length - 20} more`;
        names.append(item);
      }
    };

    input.addEventListener("change", show);
    box.addEventListener("dragover", (event) => {
      event.preventDefault();
      box.classList.add("over");
    });
    box.addEventListener("dragleave", () => box.classList.remove("over"));
    box.addEventListener("drop", (event) => {
      event.preventDefault();
      box.classList.remove("over");
      if (!event.dataTransfer.files.length) return;
      input.files = event.dataTransfer.files;
      show();
    });
  }
})();
