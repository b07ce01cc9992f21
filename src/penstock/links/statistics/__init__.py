"""Statistics of links: clicks, opens and installs."""
