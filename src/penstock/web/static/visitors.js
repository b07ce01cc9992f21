// The filters of the list of visitors suggest stored event names, traits and their values.
import { suggestBy } from "./builder/combobox.js";
import { suggest } from "./builder/suggestions.js";

suggestBy(suggest, []);
