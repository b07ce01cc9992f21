// The form of a goal: a name and one match.
import { collect } from "../form-body.js";
import { startEditing } from "./form.js";
import { makeMatch, handleMatchClick } from "./matches.js";
import { nameAll } from "./input-names.js";

const saved = JSON.parse(document.querySelector("#goal-data").textContent);
const form = document.querySelector("#goal");
const match = makeMatch(saved?.match);
match.querySelector('[data-does="remove-or"]').remove();
match.dataset.root = "match";
form.querySelector("[data-own]").replaceWith(match);

const matchJson = () => JSON.stringify(collect(form).body.match);
nameAll(form);
const before = matchJson();
const recalculates = document.querySelector("#recalculates");
form.addEventListener("input", () => {
  nameAll(form);
  if (recalculates) recalculates.hidden = matchJson() === before;
});
startEditing(form, handleMatchClick);
