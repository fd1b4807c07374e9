"use strict";
// The table of classes: all rows are in the page as data, a hundred at a time are in the document.
(() => {
  const ROWS = 100;
  const data = JSON.parse(document.getElementById("classes-data").textContent);
  const body = document.getElementById("classes-body"), heads = [...document.querySelectorAll("#classes th")];
  const filter = document.getElementById("classes-filter"), where = document.getElementById("classes-where");
  const back = document.getElementById("classes-back"), next = document.getElementById("classes-next");
  let column = 2, up = true, page = 0;

  function shown() {
    const wanted = filter.value.trim().toLowerCase();
    const rows = data.filter(row => row[0].toLowerCase().includes(wanted));
    const missing = value => value === null;
    rows.sort((one, two) => {
      const a = one[column], b = two[column];
      if (missing(a) || missing(b)) return missing(a) - missing(b);
      const order = typeof a === "string" ? a.localeCompare(b) : a - b;
      return up ? order : -order;
    });
    return rows;
  }

  function draw() {
    const rows = shown(), pages = Math.max(1, Math.ceil(rows.length / ROWS));
    page = Math.min(page, pages - 1);
    body.replaceChildren(...rows.slice(page * ROWS, (page + 1) * ROWS).map(row => {
      const line = document.createElement("tr");
      row.forEach((value, index) => {
        const cell = document.createElement(index ? "td" : "th");
        if (!index) cell.scope = "row";
        const digits = heads[index].dataset.digits;
        cell.textContent = value === null ? "–" : index ? value.toFixed(digits) : value;
        line.append(cell);
      });
      return line;
    }));
    where.textContent = `${rows.length} of ${data.length} classes, page ${page + 1} of ${pages}`;
    back.disabled = page === 0;
    next.disabled = page + 1 >= pages;
    back.hidden = next.hidden = pages === 1;
    heads.forEach((head, index) => {
      if (index === column) head.setAttribute("aria-sort", up ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
  }

  heads.forEach((head, index) => head.querySelector("button").addEventListener("click", () => {
    up = index === column ? !up : true;
    column = index;
    page = 0;
    draw();
  }));
  filter.addEventListener("input", () => { page = 0; draw(); });
  back.addEventListener("click", () => { page -= 1; draw(); });
  next.addEventListener("click", () => { page += 1; draw(); });
  draw();
})();
