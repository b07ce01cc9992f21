// The tables of a card as rows of texts, also those that are folded.
const FORMULA = /^[=@]|^[+-](?!\d)/; // spreadsheets would run it

// Returns the rows of all tables and of lists whose items have `data-cells`, with an empty row
// between them.
export function rowsOf(card) {
  const tables = [...card.querySelectorAll("table, [data-columns]")].map((element) =>
    element.matches("table") ? tableRows(element) : listRows(element),
  );
  return tables.flatMap((rows, index) => (index ? [[], ...rows] : rows));
}

function tableRows(table) {
  const rows = [...table.querySelectorAll(":is(thead, tbody) > tr")].map((row) =>
    [...row.cells].map(textOf),
  );
  const [head, ...body] = rows;
  const isFilled = (_, at) => body.some((row) => row[at]);
  return [head, ...body].map((row) => row.filter(isFilled));
}

function listRows(list) {
  const rows = [...list.querySelectorAll("[data-cells]")];
  return [list.dataset.columns, ...rows.map(({ dataset }) => dataset.cells)].map((cells) =>
    JSON.parse(cells).map((cell) => String(cell ?? "")),
  );
}

function textOf(cell) {
  const copy = cell.cloneNode(true);
  for (const control of copy.querySelectorAll("label, button, svg, .as-baseline")) control.remove();
  for (const part of copy.querySelectorAll(".sub, .badge, .soft")) part.before(" ");
  const text = copy.textContent.replace(/\s+/g, " ").replace(/\u2212(?=\d)/g, "-").trim();
  return text === "–" ? "" : text;
}

const guarded = (cell) => (FORMULA.test(cell) ? `'${cell}` : cell);
const quoted = (cell) => (/[",]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);

export const tsvOf = (rows) =>
  rows.map((row) => row.map((cell) => guarded(cell.replace(/\s+/g, " "))).join("\t")).join("\n");
export const csvOf = (rows) =>
  rows.map((row) => `${row.map((cell) => quoted(guarded(cell))).join(",")}\r\n`).join("");
