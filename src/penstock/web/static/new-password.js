// Copies the token of a mailed link into the form. The token follows #, so that the address that
// the server sees has no secret.
document.querySelector("#new-password").elements.token.value = location.hash.slice(1);
