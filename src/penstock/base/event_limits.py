"""Limits for events, their fields and batches, which several rooms check."""

MAX_EVENT_BYTES = 64 * 1024
"""Maximum size of one event, in bytes of JSON."""
MAX_EVENT_VALUES = 10_000
"""Maximum number of JSON values in the text of one event, nested ones included."""
MAX_BATCH_EVENTS = 1000
MAX_IMPORT_REJECTS = 10_000
"""Default number of rejected lines from which an import ends, if most of its lines are rejected."""
MAX_IMPORT_REJECTED_PERCENT = 50
"""Default share of rejected lines, in percent, beyond which they end an import."""
MAX_ID_BYTES = 200
"""Maximum length of an ID that a client sends, in bytes."""
MAX_NAME_CHARS = 200
"""Maximum length of an event, screen or goal name, in characters."""
MAX_PATH_CHARS = 2000
MAX_STRING_BYTES = 8 * 1024
"""Maximum length of a string in properties, in bytes."""
MAX_PROPERTY_KEYS = 255
"""Maximum number of property keys of one event, including nested keys."""
MAX_PROPERTY_DEPTH = 5
"""Maximum nesting depth of properties."""
FUTURE_TOLERANCE_S = 300
"""Maximum time by which a timestamp may be ahead of the server's clock, in seconds."""
