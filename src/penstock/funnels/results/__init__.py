"""Funnel reports: results, previews and exports."""
