"""The networks from which users have logged in: what strangers do elsewhere does not block them."""
