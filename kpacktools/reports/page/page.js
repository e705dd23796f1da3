
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
  document.documentElement.classList.add("scripted");
  for (const form of document.querySelectorAll("form")) {
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  // Makes the text of a heading a button that sorts; aria-sort says how the column stands.
  const sortable = (heading, isNumber, sort) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    heading.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const first = isNumber ? "descending" : "ascending";
      const other = isNumber ? "ascending" : "descending";
      const order = heading.getAttribute("aria-sort") === first ? other : first;
      for (const sibling of heading.parentElement.children) {
        sibling.setAttribute("aria-sort", "none");
      }
      heading.setAttribute("aria-sort", order);
      sort(order === "ascending" ? 1 : -1);
    });
  };

  // Tables whose rows are all in the page.
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const value = (row) => {
        const cell = row.cells[column];
        return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent;
      };
      sortable(heading, heading.classList.contains("number"), (direction) => {
        const keyed = [...body.rows].map((row) => [value(row), row]);
        keyed.sort(([a], [b]) => (a < b ? -direction : a > b ? direction : 0));
        body.append(...keyed.map(([, row]) => row));
      });
    });
  }

  // Findings.
  const filter = byId("finding-filter");
  if (filter !== null) {
    const boxes = [...filter.querySelectorAll("input[data-severity]")];
    const groups = [...document.querySelectorAll(".group")].map((element) => ({
      element,
      severity: element.dataset.severity,
      name: element.dataset.name,
      items: [...element.querySelectorAll(".items > li")].map((item) => [item, item.textContent.toLowerCase()]),
    }));
    const total = groups.reduce((sum, group) => sum + group.items.length, 0);
    const apply = () => {
      const severities = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
      const name = byId("finding-name").value;
      const wanted = byId("finding-search").value.trim().toLowerCase();
      let shown = 0;
      for (const group of groups) {
        const fits = severities.has(group.severity) && (name === "" || name === group.name);
        let left = 0;
        for (const [item, text] of group.items) {
          item.hidden = !(fits && (text.includes(wanted) || group.name.includes(wanted)));
          left += item.hidden ? 0 : 1;
        }
        group.element.hidden = left === 0;
        shown += left;
      }
      const all = counted(total, "finding");
      byId("finding-count").value = shown === total ? all : `${shown.toLocaleString("en")} of ${all}`;
    };
    filter.addEventListener("input", apply);
    // A link to a finding must not lead to one that a filter hides.
    const follow = () => {
      const finding = /^#finding-\d+$/.test(location.hash) ? document.querySelector(location.hash) : null;
      if (finding === null) {
        return;
      }
      if (finding.hidden) {
        filter.reset();
        apply();
      }
      finding.scrollIntoView({ block: "center" });
      finding.focus({ preventScroll: true });
    };
    window.addEventListener("hashchange", follow);
    apply();
    follow();
  }

  // Kernels: only the rows in sight are in the page.
  const list = byId("kernel-list");
  if (list !== null) {
    const data = JSON.parse(byId("kernel-data").textContent);
    const rowHeight = 28;
    const spare = 12;
    const body = byId("kernel-rows");
    const table = byId("kernel-table");
    const container = byId("kernel-container");
    const search = byId("kernel-search");
    const total = data.key.length;
    let order = Array.from({ length: total }, (_, index) => index);
    let visible = order;
    let first = -1;

    const gap = (rows) => {
      const row = document.createElement("tr");
      row.className = "gap";
      row.setAttribute("aria-hidden", "true");
      const cell = row.insertCell();
      cell.colSpan = 3;
      cell.style.height = `${rows * rowHeight}px`;
      return row;
    };
    const draw = (force) => {
      const start = Math.max(0, Math.floor(list.scrollTop / rowHeight) - spare);
      if (start === first && !force) {
        return;
      }
      first = start;
      const end = Math.min(visible.length, start + Math.ceil(list.clientHeight / rowHeight) + 2 * spare);
      const rows = start > 0 ? [gap(start)] : [];
      for (let place = start; place < end; place += 1) {
        const index = visible[place];
        const row = document.createElement("tr");
        row.setAttribute("aria-rowindex", String(place + 2));
        const key = row.insertCell();
        // On narrow screens a key is cut at its beginning; bdi keeps the order of its characters.
        const text = document.createElement("bdi");
        text.textContent = data.key[index];
        key.append(text);
        key.title = data.key[index];
        row.insertCell().textContent = data.target[index];
        row.insertCell().textContent = data.size[index].toLocaleString("en");
        rows.push(row);
      }
      if (end < visible.length) {
        rows.push(gap(visible.length - end));
      }
      body.replaceChildren(...rows);
    };
    const apply = () => {
      const wanted = search.value.trim().toLowerCase();
      const inside = container.value === "" ? -1 : Number(container.value);
      visible = order.filter(
        (index) =>
          (inside < 0 || data.container[index] === inside) &&
          (wanted === "" || data.key[index].toLowerCase().includes(wanted) || data.target[index].includes(wanted)),
      );
      table.setAttribute("aria-rowcount", String(visible.length + 1));
      const all = counted(total, "kernel");
      byId("kernel-count").value =
        visible.length === total ? all : `${visible.length.toLocaleString("en")} of ${all}`;
      list.scrollTop = 0;
      draw(true);
    };
    for (const heading of table.tHead.rows[0].cells) {
      const column = data[heading.dataset.column];
      sortable(heading, heading.dataset.column === "size", (direction) => {
        order = order.slice().sort((a, b) => {
          const [x, y] = [column[a], column[b]];
          return x < y ? -direction : x > y ? direction : a - b;
        });
        apply();
      });
    }
    for (const cell of document.querySelectorAll("th[data-container]")) {
      if (!data.container.includes(Number(cell.dataset.container))) {
        continue;
      }
      const button = document.createElement("button");
      button.type = "button";
      button.className = "open";
      button.title = "Show its kernels";
      button.append(...cell.childNodes);
      cell.append(button);
      button.addEventListener("click", () => {
        container.value = cell.dataset.container;
        search.value = "";
        apply();
        byId("kernel-filter").scrollIntoView({ block: "start" });
        list.focus({ preventScroll: true });
      });
    }
    list.addEventListener("scroll", () => requestAnimationFrame(() => draw(false)), { passive: true });
    window.addEventListener("resize", () => draw(true));
    byId("kernel-filter").addEventListener("input", apply);
    apply();
  }
})();
