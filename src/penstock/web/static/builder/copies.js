// The definition as JSON, and as the call that saves it.

export function showCopies(definition, id, baseUrl) {
  const text = JSON.stringify(definition, null, 2);
  document.querySelector("#definition-json").textContent = text;
  document.querySelector("#definition-curl").textContent = [
    `curl -X ${id ? "PUT" : "POST"} ${baseUrl}/api/funnels${id ? `/${id}` : ""} \\`,
    "  -H 'Authorization: Bearer YOUR_API_KEY' \\",
    "  -H 'Content-Type: application/json' \\",
    `  -d ${quoted(text)}`,
  ].join("\n");
}

// For a shell: in single quotes, of which there are none inside.
function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
