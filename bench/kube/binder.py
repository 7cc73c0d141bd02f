"""The server's own ceiling: bind whatever waits to the next node, 64 requests under way.

It decides nothing, counts nothing and says nothing; a scheduler on this server cannot be faster.
What waits at its start is bound from one list, before it begins to watch.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections import deque
from typing import TYPE_CHECKING, Any

from bench.kube.site import PATIENT
from mooring.kube.client import Client
from mooring.kube.errors import ApiError, Unanswered
from mooring.kube.kubeconfig import find_credentials
from mooring.kube.objects import PartialObject
from mooring.kube.resources import NODES, PODS, Select
from mooring.kube.watch import Replaced, Watch

if TYPE_CHECKING:
    from mooring.kube.objects import ObjectMeta
    from mooring.kube.watch import Batch

WAITING = Select(fields="spec.nodeName=", metadata_only=True)
UNDER_WAY = 64


async def bind_all(kubeconfig: str) -> None:
    """Bind for ever."""
    async with Client(find_credentials(kubeconfig), limits=PATIENT) as client:
        listed = await client.list(NODES, PartialObject, Select(metadata_only=True))
        nodes = itertools.cycle([node.metadata.name for node in listed.objects])
        found = await client.list(PODS, PartialObject, WAITING)
        waiting = deque(pod.metadata for pod in found.objects)
        done = {meta.uid for meta in waiting}
        stirred = asyncio.Semaphore(0)

        async def bind(meta: ObjectMeta) -> None:
            try:
                await client.bind(meta.namespace, meta.name, next(nodes), uid=meta.uid)
            except Unanswered:
                waiting.append(meta)
                stirred.release()
            except ApiError as error:
                if error.status != 409:  # an answer was lost
                    raise

        async def work() -> None:
            while waiting:
                await bind(waiting.popleft())

        await asyncio.gather(*(work() for _ in range(UNDER_WAY)))

        def take(batch: Batch[Any]) -> None:
            if isinstance(batch, Replaced):
                found = batch.objects
            else:
                found = [each.object for each in batch if each.verb == "put"]
            for each in found:
                if each.metadata.uid not in done:
                    done.add(each.metadata.uid)
                    waiting.append(each.metadata)
                    stirred.release()

        async def work_on() -> None:
            while True:
                await stirred.acquire()
                if waiting:
                    await bind(waiting.popleft())

        watch: Watch[PartialObject] = Watch(client, PODS, PartialObject, take, WAITING)
        await asyncio.gather(watch.run(), *(work_on() for _ in range(UNDER_WAY)))


if __name__ == "__main__":
    asyncio.run(bind_all(sys.argv[1]))
