"""Single sign-on: logging in with an identity provider (OpenID Connect)."""
