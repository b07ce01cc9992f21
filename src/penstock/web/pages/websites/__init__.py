"""Pages: websites and apps."""
