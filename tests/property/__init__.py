"""Laws: what must hold for every schema and every query, checked on generated ones."""
