// The definition as JSON, and as a curl command that saves it.

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

// Returns the text in single quotes, for a shell.
function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
