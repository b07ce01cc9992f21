"""Association files that let phones open links in apps, and a check of each app's entries."""
