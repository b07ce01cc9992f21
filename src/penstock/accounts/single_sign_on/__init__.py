"""Single sign-on: log-in by an identity provider (OpenID Connect)."""
