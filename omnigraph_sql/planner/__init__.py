"""From a query's plan to one SQL tree."""
