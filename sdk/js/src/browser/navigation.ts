interface NavigationApi {
  addEventListener(type: "currententrychange", listener: () => void): void;
}

/** Calls back after each navigation within the page that changes its path, query or hash route. */
export function onNavigation(
  hashRoutes: boolean | undefined,
  callback: (previousUrl: string) => void,
): void {
  const address = (): string => (hashRoutes ? location.href : withoutHash());
  let current = address();
  const check = (): void => {
    const previous = current;
    current = address();
    if (previous !== current) callback(previous);
  };
  const { navigation } = window as unknown as { navigation?: NavigationApi };
  if (navigation) {
    navigation.addEventListener("currententrychange", check);
    return;
  }
  for (const name of ["pushState", "replaceState"] as const) {
    const original = history[name];
    history[name] = function (...args) {
      original.apply(this, args);
      check();
    };
  }
  addEventListener("popstate", check);
  addEventListener("hashchange", check);
}

/** Returns the page's address without its fragment, as in a referrer. */
function withoutHash(): string {
  return location.href.split("#")[0]!;
}
