"""The machines of both roles in tests: what is kept outside of a database, beside that."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from croupier.service.analyzer.store import AnalyzerStore
from croupier.service.shuffler.batch_keys import BatchKeys
from croupier.service.shuffler.store import ShufflerStore
from croupier.service.storage.database import Database
from croupier.service.storage.progress import ProgressFiles


def shuffler_store(database: Database, **options: Any) -> ShufflerStore:
    """Over a database, with the files that every machine over it shares."""
    place = beside(database)
    return ShufflerStore(database, BatchKeys(place), ProgressFiles(place), **options)


def analyzer_store(database: Database, **options: Any) -> AnalyzerStore:
    """Over a database, with the file that every machine over it shares."""
    return AnalyzerStore(database, ProgressFiles(beside(database)), **options)


def forget_progress(database: Database) -> None:
    """As if nothing had been noted outside of the database since its plans began."""
    for file in beside(database).glob("*.progress"):
        file.write_bytes(b"")


def beside(database: Database) -> Path:
    """A directory of the database's own: beside its file, or beside its server's directory."""
    url = str(database)
    socket = re.search(r"[?&]host=([^&]+)", url)
    if socket is None:
        return Path(f"{url}.beside")
    name = hashlib.sha256(url.encode()).hexdigest()[:16]
    return Path(unquote(socket[1])).parent / f"beside-{name}"
