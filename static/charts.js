/* Fills every .chart[data-figure-url] with the Plotly figure at that URL.

   data-refresh="3"   fetch again every 3 s, and upon every server-sent event that htmx receives
   data-live          fetch again upon every server-sent event only
   .chart-tools[data-chart-tools] right behind it gets PNG and SVG buttons; [data-chart-option] selects in it become
   parameters of the URL, and [data-chart-js] parts are shown only here, where there is JavaScript. */
"use strict";

(() => {
  const drawn = new WeakSet();
  /* Plotly 4 offers by default to send the chart to its maker's cloud: measurements stay here. */
  const CONFIG = {
    responsive: true,
    displaylogo: false,
    showSendToCloud: false,
    modeBarButtons: [["zoom2d", "pan2d", "resetScale2d"]],
  };

  const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function isDark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  /* The figure's own colours, swapped for the dark page as the server says. */
  function recoloured(figure) {
    if (!isDark()) return structuredClone(figure);
    const swaps = figure.layout.meta?.dark ?? {};
    let text = JSON.stringify(figure);
    for (const [light, dark] of Object.entries(swaps)) text = text.replaceAll(light, dark);
    return JSON.parse(text);
  }

  /* Text, grid and background are the page's. */
  function themed(figure) {
    const { data, layout } = recoloured(figure);
    const page = variable("--pico-background-color");
    layout.font = { family: "system-ui, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif", size: 12, color: variable("--text") };
    layout.paper_bgcolor = layout.plot_bgcolor = page;
    layout.hoverlabel = { bgcolor: variable("--panel-2"), bordercolor: variable("--line"), font: { color: variable("--text") }, align: "left" };
    if (layout.title?.subtitle?.font) layout.title.subtitle.font.color = variable("--text-2");
    for (const trace of data) if (trace.type === "bar") trace.insidetextfont = { color: variable("--text") };
    for (const [name, axis] of Object.entries(layout)) {
      if (!/^[xy]axis\d*$/.test(name)) continue;
      axis.gridcolor = variable("--line");
      axis.linecolor = axis.tickcolor = variable("--text-2");
    }
    return [data, layout];
  }

  function urlOf(chart) {
    const url = new URL(chart.dataset.figureUrl, location.href);
    for (const option of toolsOf(chart)?.querySelectorAll("[data-chart-option]") ?? []) {
      url.searchParams.set(option.name, option.value);
    }
    return url;
  }

  function toolsOf(chart) {
    const next = chart.nextElementSibling;
    return next?.matches("[data-chart-tools]") ? next : null;
  }

  function say(chart, text) {
    if (chart.figure) Plotly.purge(chart);
    chart.figure = null;
    const note = document.createElement("p");
    note.className = "chart-note";
    note.setAttribute("role", "status");
    note.textContent = text;
    chart.replaceChildren(note);
  }

  async function load(chart) {
    if (chart.loading || document.hidden) return;
    chart.loading = true;
    try {
      const answer = await fetch(urlOf(chart), { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error("the server answered " + answer.status);
      const figure = await answer.json();
      if (!chart.isConnected) return;
      if (chart.figure && shapeOf(chart.figure) !== shapeOf(figure)) {
        Plotly.purge(chart); /* it would keep the ranges of axes that are not the same any more */
        chart.figure = null;
      }
      const first = !chart.figure;
      if (first) chart.replaceChildren();
      chart.figure = figure;
      await draw(chart);
      if (first) chart.on("plotly_click", open);
    } catch (error) {
      /* A live chart keeps what it shows: the next refresh mends it. */
      if (!(chart.figure && chart.dataset.refresh)) {
        say(chart, "The chart could not be loaded: " + error.message + ". The table holds the same numbers; reload to try again.");
      }
    } finally {
      chart.loading = false;
    }
  }

  /* Which axes a figure has, and what they show. */
  function shapeOf({ layout }) {
    const axes = Object.entries(layout).filter(([name]) => /^[xy]axis\d*$/.test(name));
    return JSON.stringify(axes.map(([name, axis]) => [name, axis.type, axis.title, axis.visible]));
  }

  function draw(chart) {
    const [data, layout] = themed(chart.figure);
    if (chart.clientWidth < 640) narrow(data, layout);
    layout.uirevision = chart.dataset.figureUrl; /* keeps zoom and hidden lines over a refresh */
    chart.style.minHeight = layout.height + "px";
    return Plotly.react(chart, data, layout, CONFIG);
  }

  function narrow(data, layout) {
    layout.legend = { ...layout.legend, orientation: "h", x: 0, y: -0.12, yanchor: "top" };
    const named = data.some((trace) => trace.mode?.includes("text")); /* at the ends of its lines */
    layout.margin = { ...layout.margin, r: named ? 44 : 8 };
    if (layout.title?.subtitle) layout.title.subtitle.text = "";
    if (layout.title) {
      layout.title.font = { size: 12 };
      layout.title.text = layout.title.text.replace(" · ", "<br>");
    }
    stack(layout);
  }

  /* Panels in two columns go below one another. Panel n has the axes n and, for its heading, annotation n. */
  function stack(layout) {
    const panels = Object.keys(layout).filter((name) => /^yaxis\d*$/.test(name)).map((name) => name.slice(5));
    if (!panels.some((number) => layout["xaxis" + number]?.domain?.[0] > 0)) return;
    panels.forEach((number, index) => {
      const top = 1 - index / panels.length;
      const time = layout["xaxis" + number];
      time.domain = [0, 1];
      time.showticklabels = index === panels.length - 1;
      if (!time.showticklabels) delete time.title;
      layout["yaxis" + number].domain = [Math.max(0, top - 0.7 / panels.length), top];
      Object.assign(layout.annotations[index], { x: 0, y: top });
    });
    layout.height *= 1.6;
    layout.legend.y = -0.08;
  }

  function open(event) {
    const target = event.points.find((point) => point.customdata)?.customdata[0];
    if (target) location.assign(target);
  }

  function button(chart, format) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "quiet";
    made.textContent = format.toUpperCase();
    made.setAttribute("aria-label", "Download the chart as " + format.toUpperCase());
    made.addEventListener("click", () => {
      if (!chart.figure) return;
      const size = { width: Math.max(chart.clientWidth, 1000), height: chart.figure.layout.height, scale: format === "png" ? 2 : 1 };
      Plotly.downloadImage(chart, { format, filename: chart.dataset.chartName || "chart", ...size });
    });
    return made;
  }

  function equip(chart) {
    const tools = toolsOf(chart);
    if (!tools) return;
    for (const part of tools.querySelectorAll("[data-chart-js]")) part.hidden = false;
    tools.addEventListener("change", () => load(chart));
    tools.append(button(chart, "png"), button(chart, "svg"));
  }

  function start(chart) {
    if (drawn.has(chart)) return;
    drawn.add(chart);
    equip(chart);
    load(chart);
    const seconds = Number(chart.dataset.refresh);
    if (!seconds) return;
    const timer = setInterval(() => (chart.isConnected ? load(chart) : clearInterval(timer)), seconds * 1000);
  }

  const all = (selector) => document.querySelectorAll(selector);
  const startAll = () => all(".chart[data-figure-url]").forEach(start);

  document.addEventListener("theme-changed", () => all(".chart").forEach((chart) => chart.figure && draw(chart)));
  /* Charts are kept over a swap (hx-preserve): their zoom and choices stay, their numbers are fetched anew. */
  document.addEventListener("htmx:afterSettle", (event) => {
    startAll();
    event.target.querySelectorAll?.(".chart[data-figure-url]").forEach((chart) => chart.figure && load(chart));
  });
  /* A table that somebody opened stays open when its part of the page is swapped. */
  let opened = [];
  document.addEventListener("htmx:beforeSwap", () => (opened = [...all("details[id][open]")].map((one) => one.id)));
  document.addEventListener("htmx:afterSwap", () => {
    for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
  });
  document.addEventListener("htmx:sseMessage", () =>
    all(".chart[data-refresh], .chart[data-live]").forEach((chart) => load(chart)),
  );
  /* What a live page's event stream tells need not be asked for by the clock, but now and then: no event tells how long
     something still takes. */
  const ASK_ANYWAY_MS = 30000;
  const asked = new Map();
  document.addEventListener("htmx:sseOpen", (event) => (event.target.dataset.streams = ""));
  document.addEventListener("htmx:sseError", (event) => delete event.target.dataset.streams);
  document.addEventListener("htmx:beforeRequest", (event) => {
    const { elt, requestConfig } = event.detail;
    const byClock = !requestConfig.triggeringEvent && elt.closest("[sse-connect][data-streams]");
    if (byClock && Date.now() - (asked.get(elt.id) ?? 0) < ASK_ANYWAY_MS) event.preventDefault();
    else asked.set(elt.id, Date.now());
  });
  /* Plotly follows the width by itself; what is left out of a narrow chart is decided when it is drawn. */
  let resized = 0;
  addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(() => all(".chart").forEach((chart) => chart.figure && draw(chart)), 150);
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) all(".chart[data-figure-url]").forEach((chart) => (!chart.figure || chart.dataset.refresh) && load(chart));
  });
  startAll();
})();
