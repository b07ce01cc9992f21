"""The pages, by area: each module only reads what services give and renders a template. Its routes are in `ROUTES`."""
