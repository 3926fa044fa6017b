// SPDX-License-Identifier: Apache-2.0
/* Fills every .chart[data-figure-url] with the Plotly figure at that URL, and every .chart[data-figures-in].

   data-refresh="3"   fetch again every 3 s, and upon every server-sent event that htmx receives
   data-live          fetch again upon every server-sent event only
   data-zooms         fetch again what somebody zooms to: only so much of it, and as finely as it is wide
   data-instant       a name: charts with the same one show the instant that one points at in any of them (crosshair.js)
   data-asks          a form whose field `at` becomes the instant that one clicks at, and that is sent then
   data-fullscreen    a button shows it as large as the screen, as where data-zooms is
   data-titled        "no": a heading of the page says what it shows; "short": the page says what it is of
   data-figures-in    the id of a script that holds the figures, by metric: in a report that is one file
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

  /* A token of the stylesheet as a colour: light-dark() is worked out where a colour is used, not in the variable. */
  const probe = document.createElement("i");
  probe.hidden = true;
  document.body.append(probe);
  function token(name) {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  }

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

  /* Text, grid and background are the page's. No frame, a grid across the values only, a stronger base line. */
  function themed(chart) {
    const { data, layout } = recoloured(chart.figure);
    if (layout.meta?.beside && chart.clientWidth >= BESIDE_PX) beside(data, layout, chart.clientWidth);
    const surface = token("--surface");
    const [ink, quiet, line, base] = ["--ink", "--ink-2", "--line", "--line-2"].map(token);
    const lying = data.some((trace) => trace.orientation === "h");
    const family = getComputedStyle(document.body).fontFamily;
    layout.font = { family, size: 12, color: quiet };
    layout.paper_bgcolor = layout.plot_bgcolor = surface;
    layout.hoverlabel = { bgcolor: token("--surface-2"), bordercolor: base, font: { family, color: ink }, align: "left" };
    if (layout.title) layout.title.font = { ...layout.title.font, color: ink, weight: 600 };
    if (layout.title?.subtitle?.font) layout.title.subtitle.font.color = quiet;
    if (chart.dataset.titled) layout.meta.title = { ...layout.title };
    if (chart.dataset.titled === "no") untitled(layout);
    if (chart.dataset.titled === "short") layout.title.text = layout.title.text.split(" · ")[0];
    for (const trace of data) {
      if (trace.type === "bar") trace.insidetextfont = { color: ink };
      else if (trace.mode?.includes("markers") && trace.marker && !trace.marker.line) trace.marker.line = { color: surface, width: 1 };
    }
    for (const [name, axis] of axesOf(layout)) {
      const ofValues = (name[0] === "x") === lying;
      axis.showgrid = ofValues;
      axis.gridcolor = line;
      axis.linecolor = axis.tickcolor = base;
      axis.showline = !ofValues && axis.visible !== false;
      if (axis.tickformat === "~s") Object.assign(axis, spaced(axis, rangeOf(chart, name, data)));
      if (axis.title?.text) headed(layout, name, axis, lying);
    }
    return [data, layout];
  }

  /* What a page says already is not said again in the plot: its second line alone is left. Pictures have both. */
  const TITLE_PX = 24;
  const ROW_PX = 20; /* of a legend: benchlab/charts/figure.py */
  function untitled(layout) {
    const { title } = layout;
    layout.title = { ...title, text: title.subtitle?.text ?? "", font: title.subtitle?.font, subtitle: { text: "" } };
    lower(layout, TITLE_PX);
    layout.title.y = 1 - 22 / layout.height;
  }

  /* Without so many pixels above the plot, which keeps its size. */
  function lower(layout, pixels) {
    layout.height -= pixels;
    layout.margin = { ...layout.margin, t: layout.margin.t - pixels };
  }

  const axesOf = (layout) => Object.entries(layout).filter(([name]) => /^[xy]axis\d*$/.test(name));

  /* "IOPS (op/s)" reads IOPS op/s, the unit quieter; that of a y axis stands above it, level. */
  function headed(layout, name, axis, lying) {
    const ofValues = (name[0] === "x") === lying;
    const [, words, unit] = /^(.*?)(?: \(([^()]*)\))?$/.exec(axis.title.text);
    const text = `<b>${words}</b>${unit && unit !== "1" ? " " + unit : ""}`;
    if (name[0] === "x") {
      axis.title = { text: ofValues ? text : axis.title.text, font: { size: 12 } };
      return;
    }
    delete axis.title;
    const left = layout["xaxis" + (axis.anchor ?? "x").slice(1)]?.domain?.[0] ?? 0;
    const at = { x: layout.meta?.inRow ? left : 0, xref: "paper", xanchor: "left", y: axis.domain?.[1] ?? 1, yref: "paper", yanchor: "bottom", yshift: 4 };
    (layout.annotations ??= []).push({ text, showarrow: false, ...at });
  }

  /* From what an axis goes to what: as somebody zoomed it, or as its numbers need. */
  function rangeOf(chart, name, data) {
    const shown = chart.layout?.[name];
    if (shown?.range && shown.autorange === false) return shown.range;
    const [letter, axis] = [name[0], name.replace("axis", "")];
    const numbers = data.filter((trace) => (trace[letter + "axis"] ?? letter) === axis).flatMap((trace) => trace[letter]);
    const known = numbers.filter(Number.isFinite);
    return [known.reduce((a, b) => Math.min(a, b), 0), known.reduce((a, b) => Math.max(a, b), 0) * 1.06];
  }

  const PREFIXES = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];

  /* 20 MB/s and 12 k, at 1, 2 or 5 times a power of ten: d3 would stick its prefix to the number. */
  function spaced(axis, [low, high]) {
    const rough = (high - low) / (axis.nticks ?? 6);
    if (!(rough > 0)) return {};
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((one) => one >= rough * 0.999);
    const tickvals = [];
    for (let at = Math.ceil(low / step); at * step <= high; at++) tickvals.push(Number((at * step).toPrecision(12)));
    return { tickmode: "array", tickvals, ticktext: tickvals.map((one) => si(one, axis.ticksuffix ?? "")) };
  }

  function si(value, unit) {
    if (!value) return "0";
    const [scale, prefix] = PREFIXES.find(([one]) => Math.abs(value) >= one) ?? PREFIXES.at(-1);
    return `${Number((value / scale).toPrecision(4))} ${prefix}${unit}`.trim();
  }

  /* Who zooms gets ticks for what is seen then. */
  function reticked(chart, event) {
    const zoomed = Object.keys(event).filter((key) => /axis\d*\.(range|autorange)/.test(key));
    const names = new Set(zoomed.map((key) => key.split(".")[0]));
    const changes = {};
    for (const name of names) {
      const axis = chart.figure?.layout[name];
      if (axis?.tickformat !== "~s") continue;
      const ticks = spaced(axis, rangeOf(chart, name, chart.figure.data));
      for (const [key, value] of Object.entries(ticks)) changes[`${name}.${key}`] = value;
    }
    if (Object.keys(changes).length) Plotly.relayout(chart, changes);
  }

  function urlOf(chart) {
    const url = new URL(chart.dataset.figureUrl, location.href);
    for (const option of toolsOf(chart)?.querySelectorAll("[data-chart-option]") ?? []) {
      url.searchParams.set(option.name, option.value);
    }
    if (chart.dataset.zooms !== undefined) spanned(chart, url.searchParams);
    return url;
  }

  function spanned(chart, asked) {
    const shown = chart.layout?.xaxis;
    if (!shown?.range) return;
    const [left, right] = shown.domain ?? [0, 1];
    asked.set("width", Math.max(1, Math.round(chart.clientWidth * (right - left))));
    if (shown.autorange) return;
    asked.set("from", shown.range[0]);
    asked.set("to", shown.range[1]);
  }

  /* A moment after the last turn of the wheel, and behind what is on its way already. */
  function follow(chart, event) {
    if (chart.dataset.zooms === undefined) return;
    if (!Object.keys(event).some((key) => /^xaxis\d*\.(range|autorange)/.test(key))) return;
    clearTimeout(chart.zooming);
    chart.zooming = setTimeout(() => (chart.loading ? follow(chart, event) : load(chart)), 120);
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

  async function fetched(chart) {
    const answer = await fetch(urlOf(chart), { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error("the server answered " + answer.status);
    return answer.json();
  }

  function kept(chart) {
    const figures = JSON.parse(document.getElementById(chart.dataset.figuresIn).textContent);
    const metric = toolsOf(chart)?.querySelector("[data-chart-option]")?.value;
    return figures[metric] ?? Object.values(figures)[0];
  }

  async function load(chart) {
    if (chart.loading || document.hidden) return;
    chart.loading = true;
    try {
      const figure = chart.dataset.figuresIn ? kept(chart) : await fetched(chart);
      if (!chart.isConnected) return;
      if (chart.figure && shapeOf(chart.figure) !== shapeOf(figure)) {
        Plotly.purge(chart); /* it would keep the ranges of axes that are not the same any more */
        chart.figure = null;
      }
      const first = !chart.figure;
      if (first) chart.replaceChildren();
      chart.figure = figure;
      await draw(chart);
      if (!first) return;
      chart.on("plotly_click", open);
      if (chart.dataset.asks) chart.on("plotly_click", (event) => ask(chart, event));
      chart.on("plotly_restyle", () => named(chart));
      chart.on("plotly_relayout", (event) => reticked(chart, event));
      chart.on("plotly_relayout", (event) => follow(chart, event));
      chart.on("plotly_hover", (event) => crosshair.show(chart, event));
      chart.on("plotly_unhover", crosshair.hide);
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
    return JSON.stringify(axesOf(layout).map(([name, axis]) => [name, axis.type, axis.title, axis.visible]));
  }

  function draw(chart) {
    const [data, layout] = themed(chart);
    if (chart.clientWidth < 640) narrow(chart, data, layout);
    layout.uirevision = chart.dataset.figureUrl ?? chart.dataset.figuresIn; /* keeps zoom and hidden lines over a refresh */
    if (document.fullscreenElement === chart) layout.height = innerHeight;
    chart.style.minHeight = layout.height + "px";
    return Plotly.react(chart, data, layout, CONFIG).then(() => named(chart));
  }

  /* Names at the ends of lines: "end: " and the line's group. Who hides a line hides its name. */
  const END = "end: ";
  function named(chart) {
    const changes = {};
    const hidden = new Set(chart.data.filter((one) => one.visible === "legendonly").map((one) => END + one.legendgroup));
    (chart.layout.annotations ?? []).forEach(({ name, visible = true }, at) => {
      if (name?.startsWith(END) && visible === hidden.has(name)) changes[`annotations[${at}].visible`] = !visible;
    });
    if (Object.keys(changes).length) return Plotly.relayout(chart, changes);
  }

  function narrow(chart, data, layout) {
    layout.annotations = layout.annotations?.filter((one) => !one.name?.startsWith(END));
    const rows = layout.meta?.rows ?? 1; /* of its legend, which the server made room for */
    const inside = layout.height - layout.margin.t - layout.margin.b - ROW_PX * (rows - 1);
    const atSide = layout.legend?.orientation === "v";
    layout.legend = { ...layout.legend, orientation: "h", x: 0, y: -72 / Math.max(80, inside), yanchor: "top", tracegroupgap: 0 };
    const entries = data.filter((trace) => trace.showlegend ?? true).length; /* each has a row of its own here */
    const more = (layout.meta?.rows || atSide) && layout.showlegend !== false ? ROW_PX * Math.max(0, entries - rows) : 0;
    if (more) layout.legend.maxheight = ROW_PX * (entries + 1);
    const words = data.some((trace) => trace.mode?.includes("text")); /* at the ends of its lines */
    layout.margin = { ...layout.margin, r: words ? 44 : 8 };
    if (layout.title?.subtitle) layout.title.subtitle.text = "";
    if (chart.dataset.titled === "no") {
      layout.title.text = "";
      lower(layout, TITLE_PX);
    } else if (layout.title) {
      layout.title.font.size = 12;
      layout.title.text = layout.title.text.replace(" · ", "<br>");
    }
    if (!layout.meta?.inRow) stack(layout);
    layout.height += more; /* panels keep their height */
  }

  /* IOPS and latency over the same depths, one panel beside the other: who zooms one zooms both. */
  const BESIDE_PX = 600;
  const NAMED_PX = 900; /* in narrower panels names would lie over lines */
  function beside(data, layout, width) {
    const [left, right] = [[0, 0.45], [0.55, 1]];
    for (const trace of data) if (trace.yaxis === "y2") trace.xaxis = "x2";
    layout.annotations = layout.annotations?.filter((one) => width >= NAMED_PX || !one.name?.startsWith(END));
    for (const one of layout.annotations ?? []) if (one.yref === "y2") one.xref = "x2";
    layout.xaxis2 = { ...layout.xaxis, domain: right, anchor: "y2", matches: "x" };
    Object.assign(layout.xaxis, { domain: left, anchor: "y" });
    Object.assign(layout.yaxis, { domain: [0, 1] });
    Object.assign(layout.yaxis2, { domain: [0, 1], anchor: "x2" });
    layout.height *= 0.72;
    layout.legend.y = -0.2;
    layout.meta.inRow = true;
    if (layout.title) layout.title.y = 1 - 24 / layout.height;
  }

  /* Panels in columns go below one another. Panel n has the axes n and, for its heading, annotation n. */
  function stack(layout) {
    const panels = Object.keys(layout).filter((name) => /^yaxis\d*$/.test(name)).map((name) => name.slice(5));
    if (!panels.some((number) => layout["xaxis" + number]?.domain?.[0] > 0)) return;
    const heading = panels.map((number) => layout["xaxis" + number].title).find((title) => title?.text);
    panels.forEach((number, index) => {
      const top = 1 - index / panels.length;
      const time = layout["xaxis" + number];
      time.domain = [0, 1];
      time.showticklabels = index === panels.length - 1;
      if (!time.showticklabels) delete time.title;
      else if (heading) time.title = heading;
      layout["yaxis" + number].showticklabels = true;
      layout["yaxis" + number].domain = [Math.max(0, top - 0.7 / panels.length), top];
      Object.assign(layout.annotations[index], { x: 0, y: top });
    });
    layout.height *= 0.8 * (layout.meta?.columns ?? 2);
    layout.legend.y = -0.08;
  }

  function open(event) {
    const target = event.points.find((point) => point.customdata)?.customdata[0];
    if (target) location.assign(target);
  }

  function ask(chart, event) {
    const form = document.querySelector(chart.dataset.asks);
    if (!form) return;
    form.elements.at.value = event.points[0].x;
    form.requestSubmit();
  }

  function button(chart, format) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "quiet";
    made.textContent = format.toUpperCase();
    made.setAttribute("aria-label", "Download the chart as " + format.toUpperCase());
    made.addEventListener("click", () => {
      if (chart.figure) pictures.save(chart, format, chart.dataset.chartName || "chart");
    });
    return made;
  }

  function widened(chart) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "quiet";
    made.textContent = "Full screen";
    made.addEventListener("click", () => chart.requestFullscreen());
    chart.addEventListener("fullscreenchange", () => chart.figure && draw(chart));
    return made;
  }

  function equip(chart) {
    const tools = toolsOf(chart);
    if (!tools) return;
    for (const part of tools.querySelectorAll("[data-chart-js]")) part.hidden = false;
    tools.addEventListener("change", () => load(chart));
    tools.append(button(chart, "png"), button(chart, "svg"));
    const { zooms, fullscreen } = chart.dataset;
    if ((zooms ?? fullscreen) !== undefined && document.fullscreenEnabled) tools.append(widened(chart));
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
  const FILLED = ".chart[data-figure-url], .chart[data-figures-in]";
  const startAll = () => all(FILLED).forEach(start);

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
    if (document.hidden && elt.dataset.strips !== undefined) return event.preventDefault();
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
    if (!document.hidden) all(FILLED).forEach((chart) => (!chart.figure || chart.dataset.refresh) && load(chart));
  });
  startAll();
})();
