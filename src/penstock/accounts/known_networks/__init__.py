"""Networks that users have logged in from. On these networks, failed log-ins from elsewhere cannot
lock the user out.
"""
