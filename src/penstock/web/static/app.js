// Modules of every page. They listen at the document, so that they also handle parts that htmx
// loads later.
import "./colours.js";
import "./clipboard.js";
import "./dialogs.js";
import "./formats.js";
import "./forms.js";
import "./log-in.js";
import "./parts.js";
import "./time-zone.js";
