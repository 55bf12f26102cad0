"""What is deleted is gone: keys that nothing needs any more, and rows in the database's files."""

from __future__ import annotations

from croupier.service.shuffler import rows
from croupier.service.shuffler.batch_keys import BatchKeys
from croupier.service.storage.database import Database


class Forgetting:
    """Remembers where all plans were when their traces were overwritten last."""

    def __init__(self, database: Database, keys: BatchKeys) -> None:
        self._database = database
        self._keys = keys
        self._overwritten: list[object] = []

    def forget(self) -> bool:
        """Destroy keys that nothing needs, and overwrite what was deleted.

        False if somebody reads what is to be overwritten: then it is to be tried again.
        """
        stages = self._destroy_keys()
        done = self._database.forget("batches", "reports", "present", "masks")
        self._overwritten = stages if done else []
        return done

    def forget_again(self) -> bool:
        """The same, where that is still to be done.

        Keys always: another process may have ended a plan or sealed a batch, and ours are in
        memory. Overwriting, once a plan is further than when that was done last.
        """
        return self._destroy_keys() == self._overwritten or self.forget()

    def _destroy_keys(self) -> list[object]:
        """Those that nothing needs; where every plan is."""
        with self._database.reading() as transaction:
            found = rows.read_plans_on_their_way(transaction)
        for plan in found:
            self._keys.keep_only(plan.newest, plan.kept, plan.ended)
        return ["known", *(plan.stage for plan in found)]
