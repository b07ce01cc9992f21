interface NavigationApi {
  addEventListener(type: "currententrychange", listener: () => void): void;
}

/** Calls back after each navigation within the page that changes path or query. */
export function onNavigation(callback: (previousUrl: string) => void): void {
  let current = withoutHash();
  const check = (): void => {
    const previous = current;
    current = withoutHash();
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
}

/** The page's address; as a referrer, too, it has no fragment. */
function withoutHash(): string {
  return location.href.split("#")[0]!;
}
