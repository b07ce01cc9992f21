"""Goals and funnels: what is asked (`definition`), how the engine is asked (`query`), what is answered (`report`)."""
