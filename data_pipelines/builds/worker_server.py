"""Imported first by the process that starts workers: ends it with the one that uses it.

That process looks for its parent's end only when it has imported what workers need,
which takes seconds, and as long as no worker holds the other end of its pipe.
"""

import os
import threading
import time

_POLL_SECONDS = 0.5


def _end_without_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os._exit(1)


# A worker is a fork of this process, without its threads; this one holds no lock.
threading.Thread(target=_end_without_parent, args=(os.getppid(),), daemon=True).start()
