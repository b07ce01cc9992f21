/** Penstock for browsers. */
import { Client, VISITOR, type CommonOptions } from "../core/client";
import { plain } from "../core/json";
import { HOST_END, deviceTime, httpTransport, newId } from "../core/platform";
import { TRACK, type Properties } from "../core/queue";
import { onNavigation } from "./navigation";
import { browserStore, withSharedCookie } from "./store";

export type { Attempt, AttemptOptions } from "../core/attempt";
export type { Consent, Signature, Transaction } from "../core/client";
export type { Json, Properties } from "../core/queue";

export interface Options extends CommonOptions {
  /** The URL of Penstock, such as `https://penstock.example`. */
  host: string;
  /** Send a page view now and after each navigation within the page. Default: true. */
  pages?: boolean;
  /** Treat the part of the URL after `#` as a path: `/app#/cart` counts as `/app/cart`. */
  hashRoutes?: boolean;
  /** Share the visitor among sub-domains with a cookie for this domain, such as `shop.example`. */
  cookieDomain?: string;
  /** Send nothing from browsers with Do Not Track. Default: false. */
  respectDoNotTrack?: boolean;
  /** Send nothing from browsers with Global Privacy Control. Default: false. */
  respectGlobalPrivacyControl?: boolean;
}

const MAX_TEXT_CHARS = 2_700; // At most 8 KB, the limit of the server.
const MAX_URL_CHARS = 16_000; // The server cuts it again, once it has read the UTM parameters.

/** A client for one website. Create one per page. */
export class Penstock extends Client {
  #referrer = document.referrer;

  constructor(given: Options) {
    const options = { __proto__: null, ...given } as Options; // Pages may have extended prototypes.
    const { host, cookieDomain, hashRoutes } = options;
    if (!/^(https?:)?\//.test(host)) console.error(`penstock: host ${host} lacks https://`);
    const store = browserStore();
    const post = httpTransport(host);
    super(
      {
        debug: /^127\.|\blocalhost$/.test(location.hostname),
        ...options,
        consent: refuses(options) ? "denied" : options.consent,
      },
      {
        store: cookieDomain ? withSharedCookie(store, VISITOR, cookieDomain) : store,
        adoptAfterMs: 30_000,
        time: deviceTime,
        transport: (path, body) =>
          new Promise<void>(whenShown).then(() => post(path, body)),
        newId,
        whenShown,
        context: () => {
          const { href, hash, pathname } = location;
          const page = { referrer: cut(this.#referrer), title: cut(document.title) };
          return {
            ...plain(page, () => undefined),
            url: cut(href, MAX_URL_CHARS),
            path: hashRoutes && hash ? hashPath(pathname, hash) : undefined,
          };
        },
        warn: console.warn,
      },
    );
    addEventListener("online", () => this.wake());
    addEventListener("pagehide", () => {
      // Keep the events on the device as well, because a beacon does not tell whether they arrive.
      this.leave((body) => navigator.sendBeacon(host.replace(HOST_END, TRACK), body));
    });
    addEventListener("pageshow", ({ persisted }) => {
      if (!persisted) return; // Only a page that is restored from the cache needs this.
      this.wake();
      if (options.pages !== false) this.page();
    });
    if (options.pages !== false) {
      this.page();
      onNavigation(hashRoutes, (previous) => {
        this.#referrer = previous;
        this.page();
      });
    }
  }

  /** Send a page view. The client does this automatically unless the option `pages` is false. */
  page(properties?: Properties): void {
    this.send({ type: "pageview", properties: this.plain(properties) });
  }
}

export function init(options: Options): Penstock {
  return new Penstock(options);
}

/** Calls back once the page is shown: immediately, unless the browser is prerendering it. */
function whenShown(call: () => void): void {
  const { prerendering } = document as { prerendering?: boolean };
  if (prerendering) document.addEventListener("prerenderingchange", call, { once: true });
  else call();
}

/** Returns the path of a page whose route follows `#`. */
function hashPath(pathname: string, hash: string): string {
  return pathname.replace(/\/$/, "") + hash.replace(/^#!?\/?/, "/");
}

/** Returns a text that is short enough for the server, and marks that it was cut. */
function cut(text: string, maxChars = MAX_TEXT_CHARS): string {
  return text.length > maxChars
    ? text.slice(0, maxChars).replace(/\p{Surrogate}$/u, "") + "…"
    : text;
}

function refuses(options: Options): unknown {
  const { doNotTrack, globalPrivacyControl } = navigator as Navigator & {
    globalPrivacyControl?: boolean;
  };
  return (
    (options.respectDoNotTrack && doNotTrack === "1") ||
    (options.respectGlobalPrivacyControl && globalPrivacyControl)
  );
}
