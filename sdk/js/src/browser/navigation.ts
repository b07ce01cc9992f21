interface NavigationApi {
  addEventListener(type: "currententrychange", listener: () => void): void;
}

/** Calls back after each navigation within the page that changes path or query. */
export function onNavigation(callback: (previousUrl: string) => void): void {
  let current = location.href;
  const check = (): void => {
    const previous = current;
    current = location.href;
    if (withoutHash(previous) !== withoutHash(current)) callback(previous);
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

function withoutHash(url: string): string {
  return url.split("#")[0]!;
}
