"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const CHUNK = 100;
  const PRINTED = 2000;
  const SVG = "http://www.w3.org/2000/svg";
  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

  const count = (value) => value.toLocaleString("en-US");
  const size = (value) => {
    let unit = 0;
    let left = value;
    while (left >= 1024 && unit < UNITS.length - 1) { left /= 1024; unit += 1; }
    return unit ? `${left.toFixed(1)} ${UNITS[unit]}` : `${value} B`;
  };
  const time = (ms) => new Date(ms).toISOString().slice(0, 16).replace("T", " ");

  const make = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const plot = (values, width, height, label) => {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
    const largest = Math.max(...values, 1);
    const step = values.length > 1 ? (width - 4) / (values.length - 1) : 0;
    const points = values.map((value, place) => `${2 + place * step},${height - 2 - (value / largest) * (height - 4)}`);
    const line = document.createElementNS(SVG, "polyline");
    line.setAttribute("points", points.join(" "));
    line.setAttribute("vector-effect", "non-scaling-stroke");
    svg.append(line);
    return svg;
  };

  const NUMBERS = [
    ["liveFiles", "files", count], ["liveBytes", "data", size], ["rows", "rows", count],
    ["logBytes", "log", size], ["tombstones", "tombstones", count], ["findings", "findings", count],
  ];
  const STEPS = ["validate", "checkpoint", "log-expire", "vacuum"];
  const COLUMNS = [
    { title: "table", key: (one) => one.t, cell: (one) => make("td", "name", one.t) },
    { title: "group", key: (one) => one.g, wide: true, cell: (one) => make("td", "wide", one.g) },
    { title: "alerts", key: (one) => -one.a.length, cell: alerts },
    ...STEPS.map((kind) => ({
      title: kind, wide: true, key: (one) => (one.s[kind] ? one.s[kind][1] : -1), cell: (one) => step(one.s[kind]),
    })),
    ...NUMBERS.map(([name, title, shown]) => ({
      title, number: true, wide: name !== "logBytes", key: (one) => one.v[name] ?? -1,
      cell: (one) => make("td", name === "logBytes" ? "number" : "number wide", name in one.v ? shown(one.v[name]) : ""),
    })),
    { title: "log, run by run", wide: true, key: (one) => (one.p.length ? one.p[one.p.length - 1] - one.p[0] : 0), cell: trend },
  ];

  function alerts(one) {
    const cell = make("td", "alerts");
    if (!one.a.length) return cell;
    const list = make("ul", "bad");
    list.append(...one.a.map((text) => make("li", "", text)));
    cell.append(list, ...one.n.map(([text, isCommand]) => { const line = make("p"); line.append(make(isCommand ? "code" : "span", "", text)); return line; }));
    return cell;
  }
  function step(found) {
    const cell = make("td", "step wide");
    if (!found) return cell;
    cell.append(make("span", found[3] ? "bad" : "", found[0]), make("div", "dim", time(found[1])));
    cell.title = found[2];
    return cell;
  }
  function trend(one) {
    const cell = make("td", "trend wide");
    if (one.p.length > 1) cell.append(plot(one.p, 100, 24, `from ${size(one.p[0])} to ${size(one.p[one.p.length - 1])}`));
    return cell;
  }

  const body = document.getElementById("rows");
  const more = document.getElementById("more");
  const shownCount = document.getElementById("shown");
  const find = document.getElementById("find");
  const group = document.getElementById("group");
  const only = document.getElementById("only");
  let order = data.tables;
  let chosen = order;
  let shown = 0;

  function grow(rows) {
    const until = Math.min(chosen.length, shown + rows);
    const part = document.createDocumentFragment();
    for (; shown < until; shown += 1) {
      const row = make("tr");
      row.append(...COLUMNS.map((column) => column.cell(chosen[shown])));
      part.append(row);
    }
    body.append(part);
    more.hidden = shown >= chosen.length;
    shownCount.textContent = `${count(chosen.length)} of ${count(data.tables.length)} tables`;
  }
  function redraw() {
    const text = find.value.trim().toLowerCase();
    chosen = order.filter((one) => (!only.checked || one.a.length) && (!group.value || one.g === group.value)
      && (!text || one.t.toLowerCase().includes(text) || one.a.some((alert) => alert.toLowerCase().includes(text))));
    body.replaceChildren();
    shown = 0;
    grow(CHUNK);
  }
  function sort(place, heading) {
    const isDown = heading.getAttribute("aria-sort") === "ascending";
    for (const other of heading.parentNode.children) other.setAttribute("aria-sort", "none");
    heading.setAttribute("aria-sort", isDown ? "descending" : "ascending");
    const { key } = COLUMNS[place];
    const keyed = data.tables.map((one, number) => [key(one), number, one]);
    const sign = isDown ? -1 : 1;
    keyed.sort((a, b) => (a[0] < b[0] ? -sign : a[0] > b[0] ? sign : a[1] - b[1]));
    order = keyed.map((entry) => entry[2]);
    redraw();
  }

  const headings = document.getElementById("headings");
  COLUMNS.forEach((column, place) => {
    const heading = make("th", [column.number ? "number" : "", column.wide ? "wide" : ""].join(" ").trim());
    heading.scope = "col";
    heading.setAttribute("aria-sort", "none");
    const button = make("button", "", column.title);
    button.type = "button";
    button.addEventListener("click", () => sort(place, heading));
    heading.append(button);
    headings.append(heading);
  });
  for (const name of [...new Set(data.tables.map((one) => one.g))].sort()) {
    const option = make("option", "", name);
    option.value = name;
    group.append(option);
  }
  const plots = document.getElementById("plots");
  for (const [name, title, written] of NUMBERS) {
    const values = data.trends[name];
    if (!values) continue;
    const card = make("div", "card");
    card.append(make("span", "dim", title), make("b", "", written(values[values.length - 1])));
    if (values.length > 1) card.append(plot(values, 200, 40, `${title} of the last ${values.length} runs`));
    plots.append(card);
  }
  find.addEventListener("input", redraw);
  group.addEventListener("change", redraw);
  only.addEventListener("change", redraw);
  window.addEventListener("beforeprint", () => grow(Math.max(0, PRINTED - shown)));
  const observer = new IntersectionObserver((seen) => {
    if (!seen.some((one) => one.isIntersecting)) return;
    grow(CHUNK);
    observer.unobserve(more);  // reports again if the end is still in view
    observer.observe(more);
  }, { rootMargin: "400px" });
  observer.observe(more);
  redraw();
})();
