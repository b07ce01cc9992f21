"""The pages by area. A module reads from services, renders templates, and lists its `ROUTES`."""
