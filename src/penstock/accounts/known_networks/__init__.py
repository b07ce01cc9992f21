"""Networks that users have logged in from. Failed log-ins elsewhere cannot block users there."""
