// Calls of /api with the session cookie. Answers {ok, status, body, problem}; throws Unreachable when there is no answer at all.
const PATIENCE_MS = 60_000;

export class Unreachable extends Error {}

export async function call(method, url, body, headers = {}) {
  let response;
  try {
    response = await fetch(url, {
      method,
      headers: { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
  } catch (error) {
    throw new Unreachable(error.name === "TimeoutError" ? "The server took too long to answer." : "The server cannot be reached.");
  }
  const answer = await read(response);
  return response.ok ? { ok: true, status: response.status, body: answer } : { ok: false, status: response.status, problem: answer ?? {} };
}

async function read(response) {
  if (!/json/.test(response.headers.get("content-type") ?? "")) return null;
  try {
    return await response.json();
  } catch {
    return null;
  }
}
