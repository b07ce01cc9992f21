// Exclusions: the form has a line for each excluded event, between any steps or between two. The
// API has at most one exclusion row between two steps, with further events in its `or`.
import { fromTemplate, makeMatch, part } from "./matches.js";

const ANY_STEPS = "";
const isStep = ({ diagnostic, exclude }) => !diagnostic && !exclude;
const json = JSON.stringify;
const stepBefore = new WeakMap(); // line => the row of the step before its gap

// Splits the rows of a definition into its steps and diagnostic rows, and the lines of its
// exclusions. Of the events of an exclusion row, the first one keeps the row's name and offset: the
// number of diagnostic rows above it in the same gap.
export function splitRows(rows) {
  const gaps = [];
  let offset = 0;
  for (const row of rows) {
    if (isStep(row)) {
      gaps.push([]);
      offset = 0;
    } else if (row.exclude) {
      const { type, value, filters, name, or = [] } = row;
      gaps.at(-1).push(
        { type, value, filters, ...(name && { name }), ...(offset && { offset }) },
        ...or.map(({ type, value, filters }) => ({ type, value, filters })),
      );
    } else offset++;
  }
  gaps.pop(); // nothing is excluded after the last step
  return {
    rows: rows.filter(({ exclude }) => !exclude),
    lines: linesOf(gaps, true) ?? linesOf(gaps, false),
  };
}

// Returns lines that mergeRows turns into the same rows again. joins: whether an event of every gap
// is one line; returns null if the order of the events does not allow that.
function linesOf(gaps, joins) {
  const rest = gaps.map((gap) => [...gap]);
  const isInEach = (event) =>
    joins && gaps.every((gap) => gap.some((other) => json(other) === json(event)));
  const lines = [];
  for (;;) {
    rest.forEach((gap, index) => {
      while (gap.length && !isInEach(gap[0])) lines.push({ ...gap.shift(), between: index + 1 });
    });
    if (rest.every((gap) => !gap.length)) return lines;
    if (new Set(rest.map(([event]) => json(event ?? null))).size > 1) return null;
    lines.push({ ...rest[0][0], between: ANY_STEPS });
    for (const gap of rest) gap.shift();
  }
}

// Returns the rows of a definition, and the path in the form of each row and of each event in the
// `or` of an exclusion row. rows: the steps and diagnostic rows. lines: as the form has them.
export function mergeRows(rows = [], lines = []) {
  const merged = rows.map((row, index) => ({ row, paths: [`steps[${index}]`] }));
  const steps = [...rows.keys()].filter((index) => isStep(rows[index]));
  for (let step = steps.length - 1; step > 0; step--) {
    const [start, end] = [steps[step - 1], steps[step]];
    const paths = [...lines.keys()]
      .filter((index) => [undefined, step].includes(lines[index].between))
      .map((index) => `exclusions[${index}]`);
    if (!paths.length) continue;
    const [{ name, offset = 0, ...own }, ...or] = paths.map((path) => {
      const { between: _, ...event } = lines[path.match(/\d+/)[0]];
      return event;
    });
    const row = {
      ...own,
      ...(name && { name }),
      exclude: true,
      or: or.map(({ name: _, offset: __, ...event }) => event),
    };
    merged.splice(Math.min(start + 1 + offset, end), 0, { row, paths });
  }
  return { rows: merged.map(({ row }) => row), paths: merged.map(({ paths }) => paths) };
}

// Returns the errors with the paths of the form. An error of a line for several gaps occurs once.
export function faultsInForm(faults, paths) {
  const moved = faults.map((fault) => {
    const [, row, or, rest] = fault.field?.match(/^steps\[(\d+)\](?:\.or\[(\d+)\])?(.*)$/) ?? [];
    const origin = paths[row];
    if (!origin) return fault;
    const isExclusion = origin[0].startsWith("exclusions");
    const path = isExclusion
      ? (origin[or === undefined ? 0 : Number(or) + 1] ?? origin[0])
      : origin[0] + (or === undefined ? "" : `.or[${or}]`);
    return { ...fault, field: path + rest };
  });
  return [...new Map(moved.map((fault) => [json([fault.field, fault.code]), fault])).values()];
}

// line: as splitRows returns it. steps: the rows of the form's steps.
export function makeExclusion({ between = ANY_STEPS, name = "", offset, ...event }, steps) {
  const line = fromTemplate("#exclusion-template");
  const match = makeMatch(event);
  const remove = match.querySelector('[data-does="remove-or"]');
  remove.dataset.does = "remove-exclusion";
  remove.ariaLabel = remove.title = "Remove this exclusion";
  match.querySelector(".match-buttons").before(part(line, "between"));
  line.querySelector("[data-own]").replaceWith(match);
  part(line, "name").hidden = !name;
  part(line, "name").querySelector("input").value = name;
  part(line, "offset").querySelector("input").value = offset ?? "";
  if (between) stepBefore.set(line, steps[between - 1]);
  return line;
}

// Offers the gaps between the steps, after a change of the steps.
export function showGaps(list, steps) {
  for (const line of list.children) {
    const select = part(line, "between").querySelector("select");
    const before = stepBefore.get(line);
    const kept = before ? steps.indexOf(before) + 1 || Number(select.value) : 0;
    const gap = Math.min(kept, steps.length - 1);
    select.replaceChildren(new Option("any steps", ANY_STEPS));
    for (let step = 1; step < steps.length; step++)
      select.add(new Option(`steps ${step} and ${step + 1}`, step));
    select.value = gap > 0 ? gap : ANY_STEPS;
    chooseGap(line, steps);
  }
}

// Remembers the step before the chosen gap, so that the exclusion stays after it.
export function chooseGap(line, steps) {
  const { value } = part(line, "between").querySelector("select");
  if (value) stepBefore.set(line, steps[value - 1]);
  else stepBefore.delete(line);
}
