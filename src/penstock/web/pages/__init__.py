"""The pages, by area. Each area's `routes` read from services and render templates."""
