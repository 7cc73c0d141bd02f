"""One process of the scheduler, from its credentials to its end.

standby ──the lease is ours──▶ leader ──deposed──▶ standby
   └───────────── asked to stop ──────┴──▶ end

When the server has come to know another kind of owner, everything is seen anew, with that.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mooring.config import PolicyFile
from mooring.journal import Journal, JournalError, Recorder
from mooring.kube.audience import Audience
from mooring.kube.client import Client, Limits
from mooring.kube.driver import ANEW, Driver, Inbox, Office, engine_of, start_of
from mooring.kube.errors import ApiError, NotLeader, Unanswered, Unreachable
from mooring.kube.intake import ALWAYS, kinds_of
from mooring.kube.kin import Owners
from mooring.kube.kubeconfig import find_credentials
from mooring.kube.lease import Lease, Term, Times, new_identity
from mooring.kube.log import fields
from mooring.kube.logins import CredentialsError
from mooring.kube.meters import Meters
from mooring.kube.names import SCHEDULER
from mooring.kube.objects import PartialObject
from mooring.kube.owners import Owner
from mooring.kube.policyfile import Change, PolicyWatch, try_on
from mooring.kube.resources import PODS, Resource
from mooring.kube.serve import Health, Server
from mooring.kube.store import NotOursError, Place, Saver, Store
from mooring.kube.tell import Tell
from mooring.kube.watch import Watch
from mooring.kube.world import World
from mooring.model.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from mooring.engine import Engine
    from mooring.journal import Recorded
    from mooring.kube.owners import Ref
    from mooring.kube.policyfile import Refused
    from mooring.model.plan import Plan
    from mooring.model.scenario import Scenario

NAMESPACE = "mooring"
RECALL_S = 0.2
"""So long after a failure the memory is asked for again."""
ASK_S = 0.2
"""So often it asks for owners of unknown kinds."""
KINDS_S = 60.0
"""So often it looks whether the server has kinds of owners that it did not have before."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """How one process runs."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    """Of the lease and the memory; empty: as the credentials say."""
    policy: str = ""
    """Path of the policy file; empty: one queue, all defaults."""
    scheduler: str = SCHEDULER
    advisor: bool = False
    """Decide and explain, and change nothing."""
    lease: str = ""
    """Name of the lease; empty: `mooring`, and of an advisor, who is no standby, another."""
    identity: str = ""
    lease_times: Times = Times()  # noqa: RUF009 (frozen)
    memory: str = "mooring-memory"
    memory_every_s: float = 10.0
    journal: str = ""
    """Folder of journals, one file a term; empty: none is written."""
    listen: str = "127.0.0.1:8080"


@dataclass(slots=True)
class _Desk:
    """What stays for a whole term, whatever engine decides."""

    lease: Lease
    term: Term
    fenced: Client
    store: Store
    tell: Tell | None = None
    engines: int = 0
    """How many have begun."""


class Process:
    """One process: what it watches, and what it does while it leads."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.meters = Meters()
        self.health = Health()
        limits = Limits()
        margin_s = 0.9 * settings.lease_times.margin_s
        self.client = Client(
            find_credentials(settings.kubeconfig, settings.context),
            limits=replace(limits, write_timeout_s=min(limits.write_timeout_s, margin_s)),
            observer=self.meters,
        )
        self.namespace = settings.namespace or self.client.credentials.namespace or NAMESPACE
        self.policy = PolicyWatch(settings.policy) if settings.policy else None
        self.inbox = Inbox()
        self.driver: Driver | None = None
        self._watches: dict[Resource, Watch[Any]] = {}
        self._plurals: dict[tuple[str, str], Resource] = {}
        self._ending = asyncio.Event()
        """Set: what is watched now is not to be watched any more."""
        self._broken: BaseException | None = None
        """Of a task without which we would be blind or deaf: then we end, to be started again."""

    @property
    def file(self) -> PolicyFile:
        """Return the policy that is in force."""
        return self.policy.file if self.policy else PolicyFile()

    @property
    def place(self) -> Place:
        """Return where the memory is."""
        return Place(self.namespace, self.settings.memory)

    def stop(self) -> None:
        """End gracefully."""
        self.health.is_stopping = True
        self._end("asked to stop")

    def _end(self, why: str) -> None:
        self._ending.set()
        if self.driver is not None:
            self.driver.stop(why)

    async def run(self) -> None:
        """Run until asked to stop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        server = Server(self.health, self.meters, self.settings.listen)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.client.close)
            port = await server.start()
            stack.push_async_callback(server.stop)
            _LOG.info("listening", extra=fields(port=port))
            while not self.health.is_stopping:
                await self._see_and_serve()
        if self._broken is not None:
            raise self._broken

    async def _see_and_serve(self) -> None:
        """Watch all that there is and take part, until we are to stop or to see all anew."""
        self.inbox, self.driver, self._watches = Inbox(), None, {}
        self._ending.clear()
        self.health.is_synced = False
        tasks: list[asyncio.Task[Any]] = []
        try:
            self.driver = await self._watch(tasks)
            if self.driver is not None:
                await self._take_part(self.driver)
        finally:
            await _cancel(tasks)

    def _vital(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start something that never ends by itself; if it breaks, all ends."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._look_at)
        return task

    def _look_at(self, ended: asyncio.Task[None]) -> None:
        error = None if ended.cancelled() else ended.exception()
        if error is not None:
            _LOG.error("broken", extra=fields(task=ended.get_name(), error=error))
            self._broken = self._broken or error
            self.stop()

    async def _watch(self, tasks: list[asyncio.Task[Any]]) -> Driver | None:
        """Begin to watch all that there is, and see it once; None: we are to end before."""
        found, missing = await kinds_of(self.client)
        _LOG.info("kinds", extra=fields(watched=_names(found), missing=_names(missing)))
        owners = Owners({(each.group, each.kind) for each in found}, asks=True)
        world = World(self.file.topology, owners, self.settings.scheduler)
        driver = Driver(world, self.inbox, self.meters)
        synced = []
        kinds: list[tuple[Resource, type[Any]]] = [*ALWAYS, *((each, Owner) for each in found)]
        for resource, kind in kinds:
            watch: Watch[Any] = Watch(self.client, resource, kind, self.inbox.put)
            self._watches[resource] = watch
            tasks.append(self._vital(watch.run(), f"watch {resource}"))
            synced.append(asyncio.create_task(watch.synced.wait()))
        stop = asyncio.create_task(self._ending.wait())
        tasks += [stop, *synced, self._vital(self._mind_kinds(found), "kinds")]
        while not all(each.done() for each in synced):
            self.health.beat()
            waited = [stop, *(each for each in synced if not each.done())]
            await asyncio.wait(waited, timeout=5, return_when=asyncio.FIRST_COMPLETED)
            if stop.done():
                return None
        tasks.append(self._vital(self._ask(world), "owners"))
        self.health.is_synced = True
        _LOG.info("synced", extra=fields(resources=len(synced)))
        return driver

    async def _mind_kinds(self, known: list[Resource]) -> None:
        """See everything anew when the server has another kind of owner: gangs may be of it."""
        while True:
            await asyncio.sleep(KINDS_S)
            try:
                found, _ = await kinds_of(self.client)
            except (ApiError, Unreachable, CredentialsError) as error:
                _LOG.warning("kinds not read", extra=fields(error=error))
                continue
            new = [kind for kind in found if kind not in known]
            if new:
                _LOG.info("new kinds", extra=fields(kinds=_names(new)))
                self._end("the server has new kinds of owners")
                return

    async def _ask(self, world: World) -> None:
        """Ask for owners of kinds that nobody watches: only what they are named and owned by."""
        while True:
            await asyncio.sleep(ASK_S)
            for key, ref in list(world.unasked.items()):
                try:
                    found = await self._metadata(ref)
                except (ApiError, Unreachable, CredentialsError) as error:
                    _LOG.warning("owner not readable", extra=fields(owner=ref.name, error=error))
                    break
                world.unasked.pop(key, None)
                if found is None:
                    self.inbox.do(partial(world.give_up, key))
                else:
                    self.inbox.do(partial(world.put_owner, found))

    async def _metadata(self, ref: Ref) -> Owner | None:
        """Return what owns an object, and what is written on it; None: we are not to know."""
        if (ref.group, ref.kind) not in self._plurals:
            there = await self.client.discover()
            self._plurals = {(r[0].group, r[0].kind): r[0] for r in there.values()}
        resource = self._plurals.get((ref.group, ref.kind))
        if resource is None:
            return None
        try:
            found = await self.client.get(resource, ref.name, PartialObject, ref.namespace)
        except ApiError as error:
            if error.status in (401, 429) or error.status >= 500:
                raise
            return None
        if ref.uid and found.metadata.uid != ref.uid:
            return None
        return Owner(resource.api_version, resource.kind, found.metadata)

    # -- leading ------------------------------------------------------------------------------

    async def _take_part(self, driver: Driver) -> None:
        """Stand by, lead, stand by again, until we are to end."""
        settings = self.settings
        lease = Lease(
            self.client,
            settings.lease or (f"{SCHEDULER}-advisor" if settings.advisor else SCHEDULER),
            new_identity(settings.identity),
            namespace=self.namespace,
            times=settings.lease_times,
        )
        election = self._vital(lease.run(), "lease")
        fenced: Client | None = None
        try:
            while (term := await self._stand_by(driver, lease)) is not None:
                fenced = self.client.fenced(lease.check_term(term))
                self.health.is_leader = True
                try:
                    await self._serve(driver, lease, term, fenced)
                except (NotLeader, NotOursError) as error:
                    _LOG.warning("deposed", extra=fields(why=error))
                finally:
                    self.health.is_leader = False
                    await fenced.close()
        finally:
            await lease.stop(fenced.at_rest if fenced else None)
            await _cancel([election])

    async def _stand_by(self, driver: Driver, lease: Lease) -> Term | None:
        """Keep up with the world until we lead; None: we are to end."""
        turn = asyncio.create_task(lease.leading())
        turn.add_done_callback(lambda _: self.inbox.do(lambda: None))
        while not turn.done() and not self._ending.is_set():
            self.health.beat()
            await driver.look_around()
        if self._ending.is_set():
            await _cancel([turn])
            return None
        return turn.result()

    async def _serve(self, driver: Driver, lease: Lease, term: Term, fenced: Client) -> None:
        """Decide and carry out for one term: with one engine after another, if need be."""
        settings = self.settings
        store = Store(fenced, replace(self.place, writer=lease.identity))
        memory = Memory() if settings.advisor else await self._recall(store, lease, term)
        async with AsyncExitStack() as stack:
            desk = _Desk(lease, term, fenced, store)
            if not settings.advisor:
                audience, busy = Audience(driver.world), lambda: driver.is_busy
                desk.tell = Tell(fenced, audience, instance=lease.identity, busy=busy)
                desk.tell.start()
                stack.push_async_callback(desk.tell.stop)
                self.meters.tell, self.meters.store = desk.tell, store
            why = ANEW
            while why == ANEW:
                await self._catch_up(lease, term)
                if self._ending.is_set():
                    return  # nobody told the driver, which was not at work
                why, memory = await self._lead(driver, desk, memory)
                _LOG.info("stopped", extra=fields(why=why, term=term.token))

    async def _lead(self, driver: Driver, desk: _Desk, memory: Memory) -> tuple[str, Memory]:
        """Decide and carry out with one engine; return why it ended, and what it remembers."""
        settings = self.settings
        if self.policy is not None:
            self.policy.renew()  # a standby has not looked at it
        start = start_of(self.file, memory, driver.clock.now())
        engine = engine_of(start)
        async with AsyncExitStack() as stack:
            recorded = self._journal(stack, engine, desk, start)
            office = Office(engine, recorded)
            if not settings.advisor:
                saver = Saver(desk.store, engine.memory, settings.memory_every_s)
                saver.start(lambda: driver.stop("the memory was taken over"))
                stack.push_async_callback(saver.stop)
                office = Office(engine, recorded, desk.fenced, desk.tell, saver.flush)
            self.meters.begin()
            self.meters.policy = self.policy
            self.meters.queues, self.meters.standings = lambda: engine.queues, engine.standings
            tasks = [
                self._vital(self._mind_policy(driver, engine), "policy"),
                self._vital(_mind_lease(driver, desk.lease, desk.term), "term"),
            ]
            stack.push_async_callback(_cancel, tasks)
            why = await driver.lead(office, self.health.beat)
        return why, engine.memory()

    async def _recall(self, store: Store, lease: Lease, term: Term) -> Memory:
        """Return what an earlier life stored, however often it takes to ask; it is ours then."""
        while True:
            try:
                return await store.load()
            except (ApiError, Unanswered, Unreachable, CredentialsError) as error:
                _LOG.warning("memory not loaded", extra=fields(error=error))
            await asyncio.sleep(RECALL_S)
            lease.check_term(term)()
            if self._ending.is_set():
                raise NotLeader("asked to stop")

    async def _catch_up(self, lease: Lease, term: Term) -> None:
        """Return when all is known that another leader bound: our watch may be behind."""
        listed = asyncio.create_task(self._watches[PODS].again())
        try:
            while not listed.done() and not self._ending.is_set():
                lease.check_term(term)()
                await asyncio.wait({listed}, timeout=RECALL_S)
        finally:
            await _cancel([listed])

    def _journal(
        self, stack: AsyncExitStack, engine: Engine, desk: _Desk, start: Scenario
    ) -> Recorded:
        """Return what is told and asked instead of an engine: a recorder, if there is a journal."""
        if not self.settings.journal or self.settings.advisor:
            return engine
        folder = Path(self.settings.journal)
        folder.mkdir(parents=True, exist_ok=True)
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(start.now))
        desk.engines += 1
        number = f"{desk.term.number}" + (f".{desk.engines}" if desk.engines > 1 else "")
        path = folder / f"{stamp}-{number}.journal"
        journal = stack.enter_context(Journal.create(path, start))
        _LOG.info("journal", extra=fields(file=path))
        return _Diary(engine, journal)

    async def _mind_policy(self, driver: Driver, engine: Engine) -> None:
        """Take edits of the policy file; a bad one changes nothing."""
        watch = self.policy
        if watch is None:
            return
        watch.trial = partial(try_on, engine)

        def told(found: Change | Refused) -> None:
            for event in found.events if isinstance(found, Change) else ():
                driver.fact(event)

        await watch.run(told)


class _Diary(Recorder):
    """Records until that fails, as on a full disk; then it only passes everything on."""

    _is_broken = False

    def _append(self, plan: Plan) -> None:
        if self._is_broken:
            self._events.clear()
            return
        try:
            super()._append(plan)
        except JournalError as error:
            self._is_broken = True
            self._events.clear()
            _LOG.error("journal ends here", extra=fields(error=error))


async def _mind_lease(driver: Driver, lease: Lease, term: Term) -> None:
    await lease.deposed(term)
    driver.stop("the term is over")


def _names(kinds: Iterable[Resource]) -> list[str]:
    return [f"{kind} {kind.version}" for kind in kinds]


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
