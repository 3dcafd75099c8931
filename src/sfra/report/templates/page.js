"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // Theme: style sheet and charts follow the colour scheme of the page by themselves

  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const remember = value => {
    try {
      if (value) localStorage.setItem("sfra-theme", value);
      return localStorage.getItem("sfra-theme");
    } catch {
      return null; // a browser may refuse storage to files
    }
  };
  const nameTheme = () => {
    button.textContent = dark() ? "Light theme" : "Dark theme";
    button.setAttribute("aria-label", `Switch to the ${dark() ? "light" : "dark"} theme`);
  };
  button.addEventListener("click", () => {
    root.dataset.theme = remember(dark() ? "light" : "dark") || (dark() ? "light" : "dark");
    nameTheme();
  });
  system.addEventListener("change", nameTheme);
  const stored = remember();
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;
  nameTheme();

  // Charts: drawn when they can be seen, on a narrow screen in their narrow form

  const unpack = () => {
    const bytes = Uint8Array.from(atob(document.getElementById("page-data").textContent), c => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
  };
  const narrow = matchMedia("(max-width: 40rem)");
  let paper = false;
  const draw = async (element, page) => {
    const chart = page.charts[element.dataset.chart];
    const tight = narrow.matches || (paper && element.closest(".figures")); // paper has two charts in a row
    const size = tight && chart.narrow ? "narrow" : "wide";
    if (element.dataset.size === size) return;
    element.dataset.size = size;
    delete element.dataset.drawn;
    const { uses, ...spec } = chart[size];
    spec.datasets = Object.fromEntries(uses.map(name => [name, page.rows[name].map(row => ({ ...row }))]));
    spec.config = page.looks[size];
    const options = { ast: true, actions: false, renderer: "svg", logLevel: 1, tooltip: { disableDefaultStyle: true } };
    const made = await vegaEmbed(element, spec, options);
    if (element.dataset.size !== size) return made.finalize();
    element.classList.toggle("wide", size === "wide");
    const picture = element.querySelector("svg.marks");
    picture.style.maxWidth = `${1.25 * picture.width.baseVal.value}px`; // text of all charts about equally large
    element.dataset.drawn = "yes";
  };
  const drawn = unpack();
  const drawAll = () => drawn.then(page =>
    all(".chart").filter(element => !element.closest("details:not([open])")).forEach(element => draw(element, page)));
  narrow.addEventListener("change", drawAll);
  all("details").forEach(details => details.addEventListener("toggle", drawAll));
  drawAll();

  // Tables that sort

  const valueOf = cell => {
    const text = cell.dataset.value ?? cell.textContent.trim();
    const parsed = parseFloat(text.replace("−", "-").replace("+", "").replaceAll(",", ""));
    return Number.isNaN(parsed) ? text.toLowerCase() : parsed;
  };
  const missing = cell => cell.textContent.trim() === "–";
  const sortBy = (table, column, direction) => {
    const sign = direction === "descending" ? -1 : 1;
    const order = (a, b) => {
      const [x, y] = [a.cells[column], b.cells[column]];
      if (missing(x) || missing(y)) return missing(x) - missing(y);
      const [v, w] = [valueOf(x), valueOf(y)];
      if (typeof v === typeof w) return sign * (v < w ? -1 : v > w ? 1 : 0);
      return typeof v === "number" ? -1 : 1;
    };
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(order));
    all("th", table.tHead).forEach((head, i) => {
      if (i === column) head.setAttribute("aria-sort", direction);
      else head.removeAttribute("aria-sort");
    });
  };
  all("table.sortable").forEach(table => all("th", table.tHead).forEach((head, column) => {
    const control = document.createElement("button");
    control.type = "button";
    control.className = "sort";
    control.textContent = head.textContent;
    head.replaceChildren(control);
    control.addEventListener("click", () => {
      const [first, second] = head.classList.contains("n") ? ["descending", "ascending"] : ["ascending", "descending"];
      sortBy(table, column, head.getAttribute("aria-sort") === first ? second : first);
    });
  }));

  // Filters of the leaderboard: every line is in the page, those that are asked for are shown

  const filters = all("select[data-filter]");
  const filter = () => all("#board tbody tr").forEach(line => {
    line.hidden = filters.some(({ value, dataset }) =>
      line.dataset[dataset.filter] !== value && (value || dataset.filter === "forget"));
  });
  filters.forEach(select => select.addEventListener("change", filter));

  // Details open for links

  const openTarget = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let place = target; place; place = place.parentElement) if (place.tagName === "DETAILS") place.open = true;
    target.scrollIntoView();
    if (target.tagName === "DETAILS") target.querySelector("summary").focus({ preventScroll: true });
  };
  addEventListener("hashchange", openTarget);
  openTarget();

  // Paper gets every audit and every chart; a browser prints once the promises of this handler are kept

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = all("details:not([open])").filter(details => details.matches(".audit") || details.querySelector(".chart"));
    closed.forEach(details => { details.open = true; });
    paper = true;
    drawAll();
  });
  addEventListener("afterprint", () => {
    closed.forEach(details => { details.open = false; });
    paper = false;
    drawAll();
  });
})();
