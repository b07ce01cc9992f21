// What every page has. Each module listens at the document, so that parts which htmx loads later work as well.
import "./colours.js";
import "./copying.js";
import "./dialogs.js";
import "./formats.js";
import "./forms.js";
import "./parts.js";
