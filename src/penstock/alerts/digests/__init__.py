"""Weekly digests: an email to each person who subscribes, about the funnels they choose."""
