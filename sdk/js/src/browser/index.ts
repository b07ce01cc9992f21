/** Penstock for browsers. */
import { Client, VISITOR, type CommonOptions } from "../core/client";
import { HOST_END, deviceTime, httpTransport, newId } from "../core/platform";
import { TRACK, type Properties } from "../core/queue";
import { onNavigation } from "./navigation";
import { browserStore, withSharedCookie } from "./store";

export type { Attempt, AttemptOptions } from "../core/attempt";
export type { Consent, Signature, Transaction } from "../core/client";
export type { Json, Properties } from "../core/queue";

export interface Options extends CommonOptions {
  /** Where Penstock runs, such as `https://penstock.example`. */
  host: string;
  /** Send a page view now and after each navigation within the page. Default: true. */
  pages?: boolean;
  /** Share the visitor with sub-domains by a cookie of this domain, such as `shop.example`. */
  cookieDomain?: string;
  /** Send nothing for browsers that ask so. Default: false. */
  respectDoNotTrack?: boolean;
  respectGlobalPrivacyControl?: boolean;
}

/** A client for one website. Call it once per page. */
export class Penstock extends Client {
  #referrer = document.referrer;

  constructor(options: Options) {
    const { host, cookieDomain } = options;
    const store = browserStore();
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
        transport: httpTransport(host),
        newId,
        context: () => ({
          url: location.href,
          referrer: this.#referrer,
          title: document.title,
        }),
        warn: console.warn,
      },
    );
    addEventListener("online", () => this.wake());
    addEventListener("pagehide", () => {
      // The events stay on the device, too: nobody knows whether they arrive.
      const body = this.lastBatch();
      if (body) navigator.sendBeacon(host.replace(HOST_END, TRACK), body);
    });
    if (options.pages !== false) {
      this.page();
      onNavigation((previous) => {
        this.#referrer = previous;
        this.page();
      });
    }
  }

  /** Send a page view. Pages are sent by themselves unless the option `pages` is false. */
  page(properties?: Properties): void {
    this.send({ type: "pageview", properties });
  }
}

export function init(options: Options): Penstock {
  return new Penstock(options);
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
