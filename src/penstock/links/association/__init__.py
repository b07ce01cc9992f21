"""Association files that let phones open links in apps, and their check."""
