// Calls /api with the session cookie. Returns {ok, status, body, problem}; throws Unreachable
// without a response.
const TIMEOUT_MS = 60_000;

export class Unreachable extends Error {}

export async function call(method, url, body, headers = {}) {
  let response;
  try {
    response = await fetch(url, {
      method,
      headers: {
        Accept: "application/json",
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
  } catch (error) {
    throw new Unreachable(
      error.name === "TimeoutError"
        ? "The server took too long to respond."
        : "The server cannot be reached.",
    );
  }
  const json = await readJson(response);
  return response.ok
    ? { ok: true, status: response.status, body: json }
    : { ok: false, status: response.status, problem: json ?? {} };
}

async function readJson(response) {
  if (!/json/.test(response.headers.get("content-type") ?? "")) return null;
  try {
    return await response.json();
  } catch {
    return null;
  }
}
