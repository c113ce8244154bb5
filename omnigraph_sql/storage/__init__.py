"""Storage: the only room that knows Lance. Everything else works with the handles it gives out."""

from omnigraph_sql.interrupt_safe_import import import_whole

import_whole("lance")  # before a module of this room imports a part of it, where Ctrl-C would break it off
