"""The pages by area. Each area has `routes`, which read from services and render templates."""
