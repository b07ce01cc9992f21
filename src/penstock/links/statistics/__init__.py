"""Link statistics: clicks, opens and installs."""
