/**
 * The script `/t.js`: a client in `window.penstock`, set up by the attributes of its own tag.
 *
 *     <script async src="https://penstock.example/t.js" data-website="web_..."></script>
 *
 * Before it is loaded, pages collect calls in an array:
 *
 *     (window.penstock ||= []).push((penstock) => penstock.track("signed_up"));
 */
import { init, type Options, type Penstock } from "./browser/index";

type Call = (penstock: Penstock) => void;

const script = document.currentScript as HTMLScriptElement | null;
const page = window as unknown as { penstock?: Call[] | Penstock };
const { penstock: calls = [] } = page;

if (script?.dataset.website && Array.isArray(calls)) {
  const penstock = init(options(script));
  page.penstock = Object.assign(penstock, { push: (call: Call) => call(penstock) });
  for (const call of calls) call(penstock);
}

/** The attributes are the options of `init`: `data-cookie-domain` is `cookieDomain`. */
function options({ src, dataset }: HTMLScriptElement): Options {
  const switches: Record<string, boolean | undefined> = { "": true, true: true, false: false };
  const values = Object.entries(dataset).map(([name, text]) => [name, switches[text!] ?? text]);
  return { host: new URL(".", src).href, ...Object.fromEntries(values) } as Options;
}
