"""The dashboard: server-rendered pages that load nothing from other hosts."""
