"use strict";
(() => {
  const page = JSON.parse(document.getElementById("page-data").textContent);
  const root = document.documentElement;
  if (page.rows) {
    const columns = Object.entries(page.rows);
    page.rows = columns[0][1].places.map((_, i) =>
      Object.fromEntries(columns.map(([name, { values, places }]) => [name, values[places[i]]])));
  }
  const summed = steps => {
    let total = 0;
    return steps.map(step => (total += step));
  };
  const runs = page.runs.map(run => ({
    ...run, epochs: run.epochs && summed(run.epochs), retain: summed(run.retain), forget: summed(run.forget),
  }));
  for (const audit of Object.values(page.audits)) {
    audit.runs = audit.runs.map(([subject, i]) => ({ ...runs[i], subject }));
  }
  const UNIT = 1e5;
  const SLACK = 1.5; // units: what rounding may have added to a loss of accuracy
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const make = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const MISSING = "–";
  const number = (value, digits = 2) =>
    value === null || value === undefined ? MISSING : (value.toFixed(digits) * 1 === 0 ? (0).toFixed(digits) : value.toFixed(digits)).replace("-", "−");
  const signed = (value, digits = 2) => (value !== null && value !== undefined && value.toFixed(digits) > 0 ? "+" : "") + number(value, digits);
  const mean = values => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);

  // Theme

  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const button = document.getElementById("theme");
  const remember = value => {
    try {
      if (value) localStorage.setItem("sfra-theme", value);
      return localStorage.getItem("sfra-theme");
    } catch {
      return null; // a browser may refuse storage to files
    }
  };
  const showTheme = () => {
    button.textContent = dark() ? "Light theme" : "Dark theme";
    button.setAttribute("aria-label", `Switch to the ${dark() ? "light" : "dark"} theme`);
    button.removeAttribute("aria-pressed");
    root.dataset.drawn = dark() ? "dark" : "light";
  };

  // Curves

  const score = (run, i) => {
    const kept = 1 - Math.max(0, run.retain[0] - run.retain[i]) / UNIT;
    const back = Math.max(0, run.forget[i] - run.forget[0]) / UNIT;
    return kept + back > 0 ? (2 * kept * back) / (kept + back) : 0;
  };
  const epochOf = (run, i) => (run.epochs ? run.epochs[i] : i);
  const select = (audit, subject, [scale, variant]) =>
    audit.runs.filter(run => run.subject === subject && run.scale === scale && run.variant === variant);
  const bestWithin = (run, budget) => {
    let best = { i: 0, rs: 0 };
    run.retain.forEach((value, i) => {
      const rs = score(run, i);
      if (run.retain[0] - value <= budget * UNIT + SLACK && rs > best.rs) best = { i, rs };
    });
    return { epoch: epochOf(run, best.i), rs: best.rs };
  };
  const curve = (runs, series, value) => {
    const epochs = new Map();
    for (const run of runs) {
      run.retain.forEach((_, i) => {
        const epoch = epochOf(run, i);
        epochs.set(epoch, [...(epochs.get(epoch) || []), value(run, i)]);
      });
    }
    return [...epochs].filter(([, values]) => values.length === runs.length)
      .sort((a, b) => a[0] - b[0])
      .map(([epoch, values]) => ({ series, epoch, value: mean(values) }));
  };
  const linesOf = (audit, reading) => {
    const model = select(audit, "model", reading);
    return [
      ...curve(model, "forget accuracy", (run, i) => run.forget[i] / UNIT),
      ...curve(model, "retain accuracy", (run, i) => run.retain[i] / UNIT),
      ...curve(model, "RS", score),
      ...curve(select(audit, "reference", reading), "RS of the reference", score),
    ];
  };
  const seedsOf = (audit, reading) => {
    const runs = select(audit, "model", reading);
    return runs.length < 2 ? [] : runs.flatMap(run =>
      run.retain.map((_, i) => ({ seed: run.seed, epoch: epochOf(run, i), value: score(run, i) })));
  };
  const marksOf = (audit, reading) => {
    const runs = select(audit, "model", reading);
    const at = (epoch, k) => {
      const run = runs[Math.min(k, runs.length - 1)];
      const i = run.epochs ? run.epochs.indexOf(epoch) : epoch;
      return i >= 0 && i < run.retain.length ? score(run, i) : null;
    };
    const rules = audit.marks
      .filter(mark => mark.scale === reading[0] && mark.variant === reading[1])
      .flatMap(mark => mark.epochs.map((epoch, k) => ({ rule: mark.rule, epoch, value: at(epoch, k) })));
    return rules.filter(mark => mark.value !== null);
  };
  const ringsOf = (audit, reading, budget) =>
    select(audit, "model", reading).map(run => bestWithin(run, budget)).map(({ epoch, rs }) => ({ epoch, value: rs }));

  // Charts

  const charts = new Map();
  const coloured = (value, colours) => {
    if (typeof value === "string" && value.startsWith("@")) return colours[value.slice(1)] || value;
    if (Array.isArray(value)) return value.map(item => coloured(item, colours));
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, coloured(v, colours)]));
    return value;
  };
  const patched = ({ spec, dark: changes }) => {
    let copy = JSON.parse(JSON.stringify(spec));
    if (!dark()) return copy;
    for (const [path, value] of changes) {
      if (!path.length) { copy = JSON.parse(JSON.stringify(value)); continue; }
      const last = path[path.length - 1];
      path.slice(0, -1).reduce((place, key) => place[key], copy)[last] = value;
    }
    return copy;
  };
  const readingOf = key => (charts.get(key) || {}).reading || page.audits[key].main;
  const budgetOf = key => Number(document.getElementById(`${key}-budget`).value) / 100;
  const specOf = element => {
    const { kind, audit: key, figure } = element.dataset;
    if (kind === "figure") return patched(page.figures[figure]);
    const spec = coloured(page.specs[kind], page.colours[dark() ? "dark" : "light"]);
    const audit = page.audits[key];
    const datasets = kind === "sweep"
      ? { lines: audit.sweep.flatMap(([kappa, rs, other]) => [
          { series: "model", kappa, value: rs }, ...(other === null ? [] : [{ series: "reference", kappa, value: other }])]) }
      : {
          seeds: seedsOf(audit, readingOf(key)),
          lines: linesOf(audit, readingOf(key)),
          marks: marksOf(audit, readingOf(key)),
          budget: ringsOf(audit, readingOf(key), budgetOf(key)),
        };
    return { ...spec, datasets, description: element.getAttribute("aria-label") };
  };
  const draw = async element => {
    const turn = (Number(element.dataset.turn) || 0) + 1;
    element.dataset.turn = turn;
    const options = { ast: true, actions: false, renderer: "svg", logLevel: 1, tooltip: { theme: dark() ? "dark" : "light" } };
    const made = await vegaEmbed(element, specOf(element), options);
    if (Number(element.dataset.turn) !== turn) return made.finalize();
    const { kind, audit: key } = element.dataset;
    if (kind === "trajectory") charts.set(key, { ...charts.get(key), view: made.view });
    element.dataset.drawn = "yes";
    return undefined;
  };
  const visible = element => !element.closest("details:not([open])");
  const drawMissing = () => all(".chart").filter(e => visible(e) && !e.dataset.turn).forEach(draw);
  const redraw = () => {
    showTheme();
    all(".chart").filter(e => e.dataset.turn).forEach(draw);
  };

  // Budget and choice of curves

  const tell = key => {
    const audit = page.audits[key];
    const budget = budgetOf(key);
    const found = select(audit, "model", readingOf(key)).map(run => bestWithin(run, budget));
    const other = mean(select(audit, "reference", readingOf(key)).map(run => bestWithin(run, budget).rs));
    const rs = mean(found.map(one => one.rs));
    const epochs = found.map(one => one.epoch).join(", ");
    const compared = other === null ? "" : `; reference ${number(other)}, difference ${signed(rs - other)}`;
    const points = `${(100 * budget).toFixed(1)} points`;
    document.getElementById(`${key}-budget`).setAttribute("aria-valuetext", points);
    document.getElementById(`${key}-found`).textContent =
      `ε = ${points}: RS@ε ${number(rs)} at epoch ${epochs}${compared}`;
    const chart = charts.get(key);
    if (chart && chart.view) chart.view.data("budget", ringsOf(audit, readingOf(key), budget)).runAsync();
  };
  const prepare = key => {
    const slider = document.getElementById(`${key}-budget`);
    if (!slider || !page.audits[key]) return;
    slider.addEventListener("input", () => tell(key));
    const audit = page.audits[key];
    const readings = [...new Map(audit.runs.filter(run => run.subject === "model")
      .map(run => [`${run.scale} scale, ${run.variant}`, [run.scale, run.variant]]))];
    const choice = document.getElementById(`${key}-which`);
    if (readings.length > 1) {
      choice.closest(".which").hidden = false;
      readings.forEach(([name], i) => choice.append(make("option", name, { value: i })));
      choice.value = String(Math.max(0, readings.findIndex(([, r]) => r.join() === audit.main.join())));
      choice.addEventListener("change", () => {
        charts.set(key, { reading: readings[choice.value][1] });
        tell(key);
        all(`.chart[data-audit="${key}"][data-kind="trajectory"]`).forEach(draw);
      });
    }
    tell(key);
  };

  // Tables that sort

  const valueOf = cell => {
    const text = cell.dataset.value ?? cell.textContent.trim();
    const parsed = parseFloat(text.replace("−", "-").replace("+", "").replaceAll(",", ""));
    return Number.isNaN(parsed) ? text.toLowerCase() : parsed;
  };
  const missing = cell => cell.textContent.trim() === MISSING;
  const sortBy = (table, column, direction) => {
    const body = table.tBodies[0];
    const sign = direction === "descending" ? -1 : 1;
    const order = (a, b) => {
      const [x, y] = [a.cells[column], b.cells[column]];
      if (missing(x) || missing(y)) return missing(x) - missing(y);
      const [v, w] = [valueOf(x), valueOf(y)];
      if (typeof v === typeof w) return sign * (v < w ? -1 : v > w ? 1 : 0);
      return typeof v === "number" ? -1 : 1;
    };
    body.append(...[...body.rows].sort(order));
    [...table.tHead.rows[0].cells].forEach((head, i) => {
      if (i === column) head.setAttribute("aria-sort", direction);
      else head.removeAttribute("aria-sort");
    });
  };
  const sortable = table => {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const control = make("button", head.textContent, { type: "button", class: "sort" });
      head.replaceChildren(control);
      control.addEventListener("click", () => {
        const first = head.classList.contains("n") ? "descending" : "ascending";
        const second = first === "ascending" ? "descending" : "ascending";
        sortBy(table, column, head.getAttribute("aria-sort") === first ? second : first);
      });
    });
  };
  const resort = table => {
    const heads = [...table.tHead.rows[0].cells];
    const column = heads.findIndex(head => head.hasAttribute("aria-sort"));
    if (column >= 0) sortBy(table, column, heads[column].getAttribute("aria-sort"));
  };

  // Leaderboard and comparison of a benchmark

  const FILTERS = ["dataset", "backbone", "forget", "scale", "rule"];
  const board = document.getElementById("board");
  const fill = (select, values, chosen, any) => {
    if (any) select.append(make("option", any, { value: "" }));
    values.forEach(([value, name]) => select.append(make("option", name, { value })));
    select.value = chosen;
  };
  const chosen = () => {
    const asked = Object.fromEntries(FILTERS.map(name => [name, document.getElementById(`by-${name}`).value]));
    return page.rows.filter(row => FILTERS.every(name => !asked[name] || row[name] === asked[name]));
  };
  const grouped = (rows, key) => {
    const groups = new Map();
    rows.forEach(row => groups.set(key(row), [...(groups.get(key(row)) || []), row]));
    return groups;
  };
  const known = (rows, name) => rows.map(row => row[name]).filter(value => value !== null);
  const largest = values => (values.length ? Math.max(...values) : null);
  const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
  const share = value => (value === null ? MISSING : `${number(100 * value, 1)} %`);
  const BOARD = [
    [mean, "rs", number], [largest, "rs", number], [mean, "delta_rs", signed], [largest, "delta_rs", signed],
    ...["forget_before", "forget_after", "retain_before", "retain_after"].map(name => [mean, name, share]),
  ];
  const boardRow = rows => {
    const line = make("tr");
    const first = rows[0];
    line.append(make("th", first.name, { scope: "row" }));
    if (page.several) line.append(make("td", first.place));
    BOARD.forEach(([over, name, write]) => {
      const value = over(known(rows, name));  // exact, to sort by what is rounded away
      line.append(make("td", write(value), value === null ? { class: "n" } : { class: "n", "data-value": value }));
    });
    line.append(make("td", String(rows.length), { class: "n" }));
    return line;
  };
  const showBoard = () => {
    const groups = grouped(chosen(), row => `${row.method}|${row.dataset}|${row.backbone}`);
    board.tBodies[0].replaceChildren(...[...groups.values()].map(boardRow));
    resort(board);
    document.getElementById("board-count").textContent = `${count(new Set(chosen().map(row => row.method)).size, "method")}, ${count(chosen().length, "audit")}`;
    showPair();
  };
  const showPair = () => {
    const table = document.getElementById("pair");
    const [one, two] = ["first", "second"].map(id => document.getElementById(id).value);
    const rows = chosen();
    const of = (method, place) => rows.find(row => row.method === method && row.where === place);
    const places = [...new Set(rows.map(row => row.where))].filter(place => of(one, place) && of(two, place));
    const lines = places.map(place => [place, of(one, place), of(two, place)]);
    const row = (head, values) => {
      const line = make("tr");
      line.append(make("th", head, { scope: "row" }), ...values.map(text => make("td", text, { class: "n" })));
      return line;
    };
    const gap = (a, b) => (a === null || b === null ? null : a - b);
    const show = (a, b) => [number(a.rs), number(b.rs), signed(gap(a.rs, b.rs)), signed(a.delta_rs), signed(b.delta_rs), signed(gap(a.delta_rs, b.delta_rs))];
    table.tBodies[0].replaceChildren(...lines.map(([place, a, b]) => row(place, show(a, b))));
    const average = (k, name) => mean(lines.map(line => line[k][name]).filter(value => value !== null));
    const [a, b] = [1, 2].map(k => ({ rs: average(k, "rs"), delta_rs: average(k, "delta_rs") }));
    table.tFoot.replaceChildren(...(lines.length ? [row("mean", show(a, b))] : []));
    const names = [one, two].map(key => page.methods.find(([value]) => value === key)[1]);
    all("[data-name]", table).forEach(head => { head.textContent = `${head.dataset.what} ${names[Number(head.dataset.name)]}`; });
    const more = lines.filter(([, x, y]) => x.rs > y.rs).length;
    const words = lines.length
      ? `In ${more} of ${lines.length} forget sets more comes back under ${names[0]} than under ${names[1]}.`
      : "These two have no forget set in common under these filters.";
    document.getElementById("pair-words").textContent = words;
  };
  const prepareBoard = () => {
    FILTERS.forEach(name => {
      const select = document.getElementById(`by-${name}`);
      const values = page.filters[name];
      fill(select, values, page.defaults[name] ?? "", ["scale", "rule"].includes(name) ? null : "all");
      select.closest(".control").hidden = values.length < 2;
      select.addEventListener("change", showBoard);
    });
    ["first", "second"].forEach((id, i) => {
      const select = document.getElementById(id);
      fill(select, page.methods, page.pair[i]);
      select.addEventListener("change", showPair);
    });
    showBoard();
    sortBy(board, [...board.tHead.rows[0].cells].findIndex(head => head.id === "board-rank"), "descending");
  };

  // Details

  const openTarget = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let place = target; place; place = place.parentElement) if (place.tagName === "DETAILS") place.open = true;
    target.scrollIntoView();
    if (target.tagName === "DETAILS") target.querySelector("summary").focus({ preventScroll: true });
  };

  const stored = remember();
  if (stored) root.dataset.theme = stored;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    remember(root.dataset.theme);
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("hashchange", openTarget);
  const closed = new Set();
  addEventListener("beforeprint", () => all("details:not([open])").forEach(details => {
    closed.add(details);
    details.open = true;
  }));
  addEventListener("afterprint", () => {
    closed.forEach(details => { details.open = false; });
    closed.clear();
  });
  all("details").forEach(details => details.addEventListener("toggle", drawMissing));
  showTheme();
  all("table.sortable").forEach(sortable);
  Object.keys(page.audits).forEach(prepare);
  if (board) prepareBoard();
  drawMissing();
  openTarget();
})();
