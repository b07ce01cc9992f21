"""The formats of import files. A further format is one file with its `Reader`, and its tests."""
