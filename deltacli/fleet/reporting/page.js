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
    return unit ? `${left.toFixed(1)}\u00a0${UNITS[unit]}` : `${value}\u00a0B`;
  };
  const time = (ms) => new Date(ms).toISOString().slice(0, 16).replace("T", " ");

  const make = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const labelled = (className, title, text) => {  // the title is shown beside the text on narrow screens
    const cell = make("td", className, text);
    cell.dataset.label = title;
    return cell;
  };

  const whole = (command) => {  // a line must not end within an option
    const parts = command.textContent.split(/ (--?[\w-]+)/);
    command.replaceChildren(...parts.flatMap((part, number) => (number % 2 ? [" ", make("span", "option", part)] : [part])));
    return command;
  };

  const remedy = (text) => {
    const line = make("span", "remedy");
    line.append(whole(make("code", "", text)));
    addCopyButton(line.firstChild);
    return line;
  };

  const day = (ms) => new Date(ms).toISOString().slice(0, 10);
  const ends = (begin, end) => {  // days, or times of one day
    if (day(begin) !== day(end)) return [day(begin), day(end)];
    const [first, last] = [begin, end].map((ms) => new Date(ms).toISOString().replace("T", " "));
    const until = first.slice(0, 16) === last.slice(0, 16) ? 19 : 16;
    return [first.slice(0, until), last.slice(11, until)];
  };
  const joined = (text) => text.replace(/(\d) (?=(?:[KMGTPE]i?B|B|ms|s|min|h|d|%)(?!\w))/g, "$1\u00a0");
  const path = (made, text) => {  // lines end after a slash or an underscore
    made.append(...text.split(/(?<=[\/_])/).flatMap((part, number) => (number ? [make("wbr"), part] : [part])));
    return made;
  };
  const change = (points) => {
    const [first, last] = [points[0][1], points[points.length - 1][1]];
    if (first === last) return "unchanged";
    const percent = first ? Math.round((last - first) / first * 100) : 0;
    const sign = last > first ? "+" : "\u2212";
    return percent ? `${sign}${count(Math.abs(percent))}\u00a0%` : `${sign}<1\u00a0%`;
  };
  const plot = (points, width, height, shown) => {
    const svg = document.createElementNS(SVG, "svg");
    const values = points.map((point) => point[1]);
    const [begin, end] = [points[0][0], points[points.length - 1][0]];
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `from ${shown(values[0])} on ${day(begin)} to ${shown(values[values.length - 1])} on ${day(end)}`);
    const high = Math.max(...values, 1);
    const low = Math.min(...values, 0.9 * high);
    const place = ([at, value], number) => {
      const part = end > begin ? (at - begin) / (end - begin) : number / (points.length - 1);
      return `${2 + part * (width - 4)},${height - 2 - ((value - low) / (high - low)) * (height - 4)}`;
    };
    const line = document.createElementNS(SVG, "polyline");
    line.setAttribute("points", points.map(place).join(" "));
    line.setAttribute("vector-effect", "non-scaling-stroke");
    svg.append(line);
    return svg;
  };
  const axis = (points, shown) => {
    const values = points.map((point) => point[1]);
    const line = make("div", "axis dim");
    line.append(...ends(points[0][0], points[points.length - 1][0]).map((one) => make("span", "", one)));
    line.title = `lowest ${shown(Math.min(...values))}, highest ${shown(Math.max(...values))}`;
    return line;
  };

  const NUMBERS = [
    ["liveFiles", "files", count], ["liveBytes", "data", size], ["rows", "rows", count],
    ["logBytes", "log", size], ["tombstones", "tombstones", count], ["findings", "findings of any severity", count],
    ["copyLag", "versions behind in the replica", count],
  ];
  const IN_ROW = ["liveFiles", "liveBytes", "logBytes"];
  const VALIDATED = "validated (UTC)";
  const STEPS = ["validate", "optimize", "checkpoint", "copy", "log-expire", "vacuum"];
  const COLUMNS = [
    { title: "table", key: (one) => one.m, cell: name },
    { title: "alert", key: (one) => one.w, cell: alert },
    { title: "group", key: (one) => one.g, cell: (one) => labelled("", "group", one.g) },
    ...(data.tables.some((one) => one.d) ? [{
      title: VALIDATED, key: (one) => one.d ?? 0, cell: (one) => labelled("", VALIDATED, one.d ? time(one.d) : ""),
    }] : []),
    ...NUMBERS.filter(([number]) => IN_ROW.includes(number)).map(([number, title, shown]) => ({
      title, number: true, key: (one) => one.v[number] ?? -1,
      cell: (one) => labelled("number", title, number in one.v ? shown(one.v[number]) : ""),
    })),
    { title: "change of the log", wide: true, key: (one) => (one.p.length ? one.p[one.p.length - 1][1] - one.p[0][1] : 0), cell: trend },
  ];
  const WORST = 3;

  function name(one) {
    const cell = make("td", "name");
    const button = path(make("button"), one.m);
    button.type = "button";
    button.title = one.t;
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => open(one, button));
    cell.append(button);
    if (one.l) {
      const link = make("a", "page", "page");
      link.href = one.l;
      link.title = `the page of ${one.m}`;
      link.setAttribute("aria-label", link.title);
      cell.append(" ", link);
    }
    if (one.f) cell.append(make("span", "fault dim", `page not written: ${one.f}`));
    return cell;
  }
  function alert(one) {
    const cell = make("td", "alert");
    if (!one.b.length) return cell;
    for (const [mark, title] of data.marks) if (one[mark]) cell.append(make("span", "mark bad", title), " ");
    cell.append(make("span", one.w <= WORST ? "bad" : "", joined(one.b[0])));
    if (one.b.length > 1) cell.append(make("span", "dim", ` +${one.b.length - 1}`));
    const first = one.n.find(([, isCommand]) => isCommand);
    if (one.o && one.w <= WORST && first) cell.append(remedy(first[0]));  // else it is above, under the alert of several tables
    return cell;
  }
  function trend(one) {
    const cell = make("td", "trend wide");
    if (one.p.length > 1) cell.append(plot(one.p, 100, 24, size), make("span", "dim", change(one.p)));
    if (one.u) cell.append(make("span", "dim", "unchanged"));
    return cell;
  }
  function open(one, button) {
    const row = button.closest("tr");
    const isOpen = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!isOpen));
    if (isOpen) { row.nextSibling.remove(); return; }
    const cell = make("td", "details");
    cell.colSpan = COLUMNS.length;
    cell.append(make("p", "path", one.t));
    if (one.a.length) {
      const list = make("ul", one.w <= WORST ? "bad" : "");
      list.append(...one.a.map((text) => make("li", "", joined(text))));
      cell.append(list);
    }
    for (const [text, isCommand] of one.n) {
      const line = make("p");
      line.append(isCommand ? remedy(text) : make("span", "", text));
      cell.append(line);
    }
    for (const kind of STEPS.filter((step) => step in one.s)) {
      const [state, at, message, isAlert] = one.s[kind];
      const line = make("p");
      line.append(make("b", "", kind), " ", make("span", isAlert ? "bad" : "", state), make("span", "dim", ` ${time(at)} ${message}`));
      cell.append(line);
    }
    const numbers = NUMBERS.filter(([number]) => number in one.v).map(([number, title, shown]) => `${shown(one.v[number])} ${title}`);
    cell.append(make("p", "dim", [`group ${one.g}`, ...numbers].join(", ")));
    if (one.p.length > 1) {
      const figure = make("div", "figure");
      figure.append(make("span", "dim", `log, ${change(one.p)}`), plot(one.p, 200, 40, size), axis(one.p, size));
      cell.append(figure);
    }
    const below = make("tr", "below");
    below.append(cell);
    row.after(below);
  }

  const body = document.getElementById("rows");
  const more = document.getElementById("more");
  const shownCount = document.getElementById("shown");
  const find = document.getElementById("find");
  const group = document.getElementById("group");
  const only = document.getElementById("only");
  data.tables.forEach((one, place) => { one.k = place; });
  let order = data.tables;
  let chosen = order;
  let shown = 0;

  function grow(rows) {
    const until = Math.min(chosen.length, shown + rows);
    const part = document.createDocumentFragment();
    for (; shown < until; shown += 1) {
      const row = make("tr");
      row.id = `row-${chosen[shown].k}`;
      row.append(...COLUMNS.map((column) => column.cell(chosen[shown])));
      part.append(row);
    }
    body.append(part);
    more.hidden = shown >= chosen.length;
    shownCount.textContent = `${count(chosen.length)} of ${count(data.tables.length)} tables`;
  }
  function redraw() {
    const text = find.value.trim().toLowerCase();
    chosen = order.filter((one) => (!only.value || (only.value === "alerts" ? one.a.length : one[only.value])) && (!group.value || one.g === group.value)
      && (!text || one.t.toLowerCase().includes(text) || one.a.concat(one.b).some((alert) => alert.toLowerCase().includes(text))));
    body.replaceChildren();
    shown = 0;
    grow(CHUNK);
  }
  function reveal(one) {
    [find.value, group.value, only.value] = ["", "", ""];
    redraw();
    grow(Math.max(0, chosen.indexOf(one) + 1 - shown));
    const row = document.getElementById(`row-${one.k}`);
    const button = row.querySelector("button");
    open(one, button);
    row.scrollIntoView({ block: "center" });
    button.focus({ preventScroll: true });
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

  for (const scripted of ["trends", "tools"]) document.getElementById(scripted).hidden = false;
  const headings = document.getElementById("headings");
  headings.replaceChildren();
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
    const points = data.trends[name];
    if (!points) continue;
    const card = make("div", "card");
    const value = make("b", "", written(points[points.length - 1][1]));
    if (points.length > 1) value.append(make("span", "dim", ` ${change(points)}`));
    card.append(make("span", "dim", title), value);
    if (points.length > 1) card.append(plot(points, 200, 40, written), axis(points, written));
    else card.append(make("span", "dim", `on ${day(points[0][0])}`));
    plots.append(card);
  }
  const linked = (shown, place) => {
    const link = make("a", "", shown.textContent);
    link.href = `#row-${place}`;
    link.addEventListener("click", (event) => { event.preventDefault(); reveal(data.tables[place]); });
    shown.replaceWith(link);
  };
  data.causes.forEach((places, number) => {
    const cause = document.getElementById("alerts").children[number];
    linked(cause.firstChild, places[0]);
    cause.querySelectorAll("b").forEach((name, which) => linked(name, places[which + 1]));
  });
  document.querySelectorAll("#alerts code, p > code").forEach((command) => addCopyButton(whole(command)));
  const others = document.getElementById("others");
  if (others) {
    const link = make("a", "", others.textContent);
    link.href = "#only";
    link.addEventListener("click", (event) => {
      event.preventDefault();
      [find.value, group.value, only.value] = ["", "", "alerts"];
      redraw();
      only.scrollIntoView();
      only.focus({ preventScroll: true });
    });
    others.replaceChildren(link);
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
