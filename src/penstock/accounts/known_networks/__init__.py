"""Networks that users have logged in from: strangers elsewhere cannot block users there."""
