"""Pages for websites and apps."""
