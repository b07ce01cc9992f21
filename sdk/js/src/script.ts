/**
 * The script `/t.js`. It creates a client in `window.penstock`, configured by its tag's attributes.
 *
 *     <script async src="https://penstock.example/t.js" data-website="web_..."></script>
 *
 * Before it has loaded, pages collect calls in an array:
 *
 *     (window.penstock ||= []).push((penstock) => penstock.track("signed_up"));
 */
import { init, type Options, type Penstock } from "./browser/index";

type Call = (penstock: Penstock) => void;

const script = document.currentScript as HTMLScriptElement | null;
const page = window as unknown as { penstock?: Call[] | Penstock };
const { penstock: calls = [] } = page;

if (!script?.dataset.website) {
  const fault = script
    ? "its tag has no data-website (a tag manager may have removed it)"
    : "it cannot find its tag: load it without type=module";
  console.error(`penstock: /t.js sends nothing: ${fault}`);
} else if (Array.isArray(calls)) {
  const penstock = init(options(script));
  page.penstock = Object.assign(penstock, { push: (call: Call) => call(penstock) });
  for (const call of calls) call(penstock);
}

/**
 * Returns the tag's attributes as options of `init`. `data-cookie-domain` becomes `cookieDomain`.
 */
function options({ src, dataset }: HTMLScriptElement): Options {
  const value = (text?: string): unknown =>
    text === "" || text === "true" || (text !== "false" && text);
  const values = Object.entries(dataset).map(([name, text]) => [name, value(text)]);
  return { host: new URL(".", src).href, ...Object.fromEntries(values) } as Options;
}
