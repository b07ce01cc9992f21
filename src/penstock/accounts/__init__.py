"""Accounts: users, sessions, workspaces, API keys and websites.

Other rooms use only the `service` and `model` modules; their routes also use `callers`.
"""
