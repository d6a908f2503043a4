// SPDX-License-Identifier: MIT
// What the report can do with a script: sort tables, and zoom into charts. Without one nothing is missing.
"use strict";
(() => {
  // Tables: the head of each column becomes a button. A cell's number is in data-v, or is its text.
  const order = new Intl.Collator("en", {numeric: true});
  const number = (cell) => {
    const text = cell.dataset.v ?? cell.textContent.replace(/,/g, "").replace(/ %$/, "");
    return text.trim() === "" || isNaN(text) ? null : Number(text);
  };

  function sort(table, index, head) {
    const down = head.getAttribute("aria-sort") === "descending";
    for (const each of head.parentNode.children) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "ascending" : "descending");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [row, number(row.cells[index]), row.cells[index].textContent]);
    const isNumeric = rows.some(([, value]) => value !== null);
    const sign = down ? 1 : -1;
    rows.sort(([, a, x], [, b, y]) => {
      if (!isNumeric) return sign * order.compare(x, y);
      // What is not known comes last, whichever way.
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (a - b);
    });
    body.append(...rows.map(([row]) => row));
  }

  for (const table of document.querySelectorAll(".wide table")) {
    [...table.tHead.rows[0].cells].forEach((head, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sort(table, index, head));
    });
  }

  // Charts: drag to zoom, double click or the button for all of it. All show the same hours.
  const found = document.getElementById("chart-data");
  if (!found || typeof uPlot === "undefined") return;
  const {begin, charts} = JSON.parse(found.textContent);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const units = [[864e11, "d"], [36e11, "h"], [6e10, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const shown = {
    count: (value) => value.toLocaleString("en"),
    ns: (value) => {
      const [unit, name] = units.find(([each]) => value >= each) ?? units[units.length - 1];
      return `${Number((value / unit).toPrecision(3))} ${name}`;
    },
  };
  // The hour, and the date where it changes; the day, and the year where it changes.
  const date = uPlot.fmtDate("{YYYY}-{MM}-{DD}"), hour = uPlot.fmtDate("{HH}:{mm}");
  const day = uPlot.fmtDate("{MM}-{DD}"), year = uPlot.fmtDate("{YYYY}");
  const said = uPlot.fmtDate("{YYYY}-{MM}-{DD} {HH}:{mm}");
  const utc = (time) => uPlot.tzDate(new Date(time * 1e3), "Etc/UTC");
  const clock = (_, times, axis, space, step) => {
    const [fine, coarse] = step >= 86400 ? [day, year] : [hour, date];
    return times.map((time, index) => {
      const isNew = index === 0 || coarse(utc(time)) !== coarse(utc(times[index - 1]));
      return fine(utc(time)) + (isNew ? `\n${coarse(utc(time))}` : "");
    });
  };
  const plots = [];

  function zoom(min, max) {
    for (const plot of plots) plot.setScale("x", {min, max});
  }

  function draw(figure) {
    const {title, unit, lines} = charts[figure.dataset.chart];
    // An hour is a line from its begin to its last second, also if the next one has no value.
    const times = lines[0].values.flatMap((_, index) => [begin + 3600 * index, begin + 3600 * index + 3599]);
    const show = shown[unit];
    const axis = {stroke: colour("soft"), grid: {stroke: colour("line"), width: 1}, ticks: {stroke: colour("line")}};
    const say = (_, value) => (value == null ? "–" : show(value));
    const live = document.createElement("div");
    live.className = "live";
    figure.append(live);
    const plot = new uPlot({
      width: live.clientWidth, height: 240, tzDate: utc,
      // Half of the last label.
      padding: [null, 36, null, null],
      // What is pointed at and zoomed into is the same in all.
      cursor: {sync: {key: "hours"}},
      scales: {x: {time: true}, y: unit === "ns" ? {distr: 3} : {range: (_, low, high) => [0, (high || 1) * 1.05]}},
      axes: [
        {...axis, values: clock, space: 50},
        {...axis, size: 85, values: (_, values) => values.map((each) => (each == null ? "" : show(each)))},
      ],
      series: [
        {label: "UTC", value: (_, time) => (time == null ? "–" : said(utc(time - time % 3600)))},
        ...lines.map((line) => ({
          label: line.label, stroke: colour(line.colour), width: 1.5, value: say, points: {show: false},
        })),
      ],
    }, [times, ...lines.map((line) => line.values.flatMap((value) => [value, value]))], live);
    plots.push(plot);
    plot.root.setAttribute("role", "img");
    plot.root.setAttribute("aria-label", `${title}: drag to zoom, point to read`);
    const all = document.createElement("button");
    all.type = "button";
    all.textContent = "All hours";
    all.addEventListener("click", () => zoom(times[0], times[times.length - 1]));
    live.append(all);
    figure.classList.add("is-live");
  }

  function drawAll() {
    for (const plot of plots.splice(0)) plot.destroy();
    for (const live of document.querySelectorAll(".live")) live.remove();
    for (const figure of document.querySelectorAll("figure[data-chart]")) draw(figure);
  }

  drawAll();
  let width = innerWidth;
  addEventListener("resize", () => {
    if (width === innerWidth) return;
    width = innerWidth;
    for (const plot of plots) plot.setSize({width: plot.root.parentNode.clientWidth, height: 240});
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
})();
