"""DataFusion: read queries, sessions and SQL statements."""

from __future__ import annotations

import os

# DataFusion cannot be stopped in the middle of a join that multiplies rows: a statement that was cancelled there keeps as
# many threads busy as it has partitions, and with one thread for each core nothing else would run until it ends. Idle
# threads cost nothing. Read when the first statement runs.
os.environ.setdefault("TOKIO_WORKER_THREADS", str(4 * (os.cpu_count() or 1) + 4))
