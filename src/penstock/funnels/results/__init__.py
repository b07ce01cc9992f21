"""Reports of a funnel: results, previews and exports."""
