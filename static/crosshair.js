// SPDX-License-Identifier: Apache-2.0
/* One instant in all that shows it: a line through every panel of the chart one points at, and of each other chart with
   the same data-instant. What each has there is told for the panel one points at. */
"use strict";

globalThis.crosshair = (() => {
  const lines = new Map(); /* chart -> the lines in it: they are moved, not made anew */
  let wanted = null;
  let frame = 0;

  /* A mouse moves more often than a screen is drawn, and Plotly takes back what it told before it tells the next. */
  function ask(what) {
    wanted = what;
    frame ||= requestAnimationFrame(draw);
  }

  function draw() {
    frame = 0;
    const seen = wanted?.chart.isConnected ? alike(wanted.chart) : [];
    for (const chart of lines.keys()) if (!seen.includes(chart)) place(chart, []);
    for (const chart of seen) place(chart, placesIn(chart));
  }

  function alike(chart) {
    const { instant } = chart.dataset;
    if (!instant) return [chart];
    return [...document.querySelectorAll(".chart[data-instant]")].filter((one) => one.dataset.instant === instant && one.figure && one._fullLayout);
  }

  function placesIn(chart) {
    const panels = Object.values(chart._fullLayout._plots ?? {});
    /* Plotly draws one itself through a panel that is alone, where it tells all of its lines. */
    if (chart === wanted.chart && panels.length === 1 && chart._fullLayout.hovermode === "x unified") return [];
    return panels.flatMap(({ xaxis, yaxis }) => {
      const left = xaxis.d2p(wanted.at);
      const inside = xaxis.visible !== false && left >= 0 && left <= xaxis._length;
      return inside ? [[xaxis._offset + left, yaxis._offset, yaxis._length]] : [];
    });
  }

  function place(chart, places) {
    const made = lines.get(chart) ?? [];
    while (made.length > places.length) made.pop().remove();
    places.forEach(([left, top, height], at) => {
      made[at] ??= Object.assign(document.createElement("i"), { className: "crosshair" });
      if (!made[at].isConnected) chart.append(made[at]);
      Object.assign(made[at].style, { translate: `${left}px ${top}px`, height: `${height}px` });
    });
    if (made.length) lines.set(chart, made);
    else lines.delete(chart);
  }

  return {
    /* `event`: Plotly's, of what one points at. */
    show: (chart, event) => {
      const shares = chart.dataset.instant || chart.figure?.layout.hoversubplots === "axis";
      if (shares && event.xvals) ask({ chart, at: event.xvals[0] });
    },
    hide: () => ask(null),
  };
})();
