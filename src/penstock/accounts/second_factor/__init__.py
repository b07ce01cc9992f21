"""The second factor of a log-in: codes of an authenticator app, and recovery codes."""
