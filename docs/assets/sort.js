// Sorts a table by the column whose heading is clicked; again, the other way round.
function numberIn(cell) {
  const data = cell.querySelector("data");
  const text = data ? data.value : cell.textContent.replaceAll(",", "");
  return /^-?[\d.]/.test(text) ? parseFloat(text) : NaN;
}

// Cells without a number stay at the end of a column of numbers, whichever way it is sorted.
function compareCells(a, b, way) {
  const [x, y] = [numberIn(a), numberIn(b)];
  if (isNaN(x) && isNaN(y)) return way * a.textContent.localeCompare(b.textContent);
  return isNaN(x) ? 1 : isNaN(y) ? -1 : way * (x - y);
}

function sortBy(table, column) {
  const heading = table.tHead.rows[0].cells[column];
  const way = heading.ariaSort === "ascending" ? -1 : 1;
  for (const cell of table.tHead.rows[0].cells) cell.ariaSort = null;
  heading.ariaSort = way === 1 ? "ascending" : "descending";
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => compareCells(a.cells[column], b.cells[column], way));
  table.tBodies[0].append(...rows);
}

document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll(".sortable table")) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sortBy(table, column));
      heading.append(button);
    });
  }
});
