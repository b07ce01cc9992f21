"""The second factor of a log-in: authenticator app codes and recovery codes."""
