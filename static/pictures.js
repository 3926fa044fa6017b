// SPDX-License-Identifier: Apache-2.0
/* A chart as a file of its own that tells where it comes from: in the <desc> of an SVG, in the iTXt chunks of a PNG
   (https://www.w3.org/TR/png-3/#11iTXt, keywords of its table). */
"use strict";

globalThis.pictures = (() => {
  const TABLE = Uint32Array.from({ length: 256 }, (_, number) => {
    for (let bit = 0; bit < 8; bit++) number = number & 1 ? 0xedb88320 ^ (number >>> 1) : number >>> 1;
    return number;
  });
  const crc = (bytes) => ~bytes.reduce((sum, one) => TABLE[(sum ^ one) & 255] ^ (sum >>> 8), -1);
  const HEAD = 33; /* signature and IHDR, which must come first */

  /* The address of a shared page is its key, which a picture must not pass on. */
  function address() {
    const { dataset } = document.body;
    if (dataset.address) return dataset.address;
    return location.pathname.startsWith("/s/") ? location.origin : location.href;
  }

  function facts(chart) {
    const { meta, title } = chart.figure.layout;
    const origin = meta?.origin ?? {};
    const runs = origin.runs ? `; runs ${origin.runs}` : "";
    return {
      Title: title?.text ?? "",
      Description: `${origin.campaign ?? ""}${runs}`,
      Source: address(),
      "Creation Time": new Date().toISOString(),
      Software: origin.software ?? "BenchLab",
    };
  }

  function chunk(keyword, text) {
    const body = new TextEncoder().encode(`iTXt${keyword}\0\0\0\0\0${text}`);
    const made = new Uint8Array(body.length + 8);
    const view = new DataView(made.buffer);
    view.setUint32(0, body.length - 4);
    made.set(body, 4);
    view.setUint32(body.length + 4, crc(body));
    return made;
  }

  function labelled(base64, told) {
    const plain = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const chunks = Object.entries(told).map(([keyword, text]) => chunk(keyword, text));
    return [plain.slice(0, HEAD), ...chunks, plain.slice(HEAD)];
  }

  function described(svg, told) {
    const page = new DOMParser().parseFromString(svg, "image/svg+xml");
    if (page.querySelector("parsererror")) return [svg]; /* a name with what no XML may hold: the picture all the same */
    const words = page.createElementNS("http://www.w3.org/2000/svg", "desc");
    words.textContent = Object.entries(told).map(([keyword, text]) => `${keyword}: ${text}`).join("\n");
    page.documentElement.prepend(words);
    return [new XMLSerializer().serializeToString(page)];
  }

  /* What a heading of the page says, a picture says itself. */
  function titled({ figure, layout }) {
    const title = layout.meta?.title;
    return title ? { title, margin: { ...layout.margin, t: figure.layout.margin.t } } : {};
  }

  /* A Blob; as large as the page has it, and at least as wide as a page of paper needs. */
  async function made(chart, format) {
    const size = { width: Math.max(chart.clientWidth, 1000), height: chart.figure.layout.height, scale: format === "png" ? 2 : 1 };
    /* Lines that a table beside the chart lists have their legend in the picture. */
    const { data, layout } = chart;
    const listed = layout.meta?.listed ? { showlegend: true } : {};
    const image = await Plotly.toImage({ data, layout: { ...layout, ...listed, ...titled(chart) } }, { format, imageDataOnly: true, ...size });
    if (format === "svg") return new Blob(described(image, facts(chart)), { type: "image/svg+xml" });
    return new Blob(labelled(image, facts(chart)), { type: "image/png" });
  }

  async function save(chart, format, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await made(chart, format));
    link.download = `${name}.${format}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  /* In base64: for who takes pictures of a report on the server (benchlab/sharing/report_jobs.py). */
  async function encoded(chart, format) {
    const reader = new FileReader();
    const read = new Promise((done, failed) => Object.assign(reader, { onload: done, onerror: failed }));
    reader.readAsDataURL(await made(chart, format));
    await read;
    return reader.result.split(",")[1];
  }

  return { save, encoded };
})();
