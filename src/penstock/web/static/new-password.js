// The token of a mailed link stands behind # and goes into the form: the address that the server
// sees has no secret.
document.querySelector("#new-password").elements.token.value = location.hash.slice(1);
