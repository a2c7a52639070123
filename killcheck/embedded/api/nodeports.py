"""Node ports of Services: handed out from 30000 to 32767, kept while they are wanted, refused where another has them.

Sources: pkg/registry/core/service/storage/alloc.go and portallocator/operation.go of Kubernetes v1.36. A real one hands
them out at random.
"""

from __future__ import annotations

from killcheck.embedded.api import status
from killcheck.embedded.api.serviceparts import HEALTH, allocates, checks_health, exposed, numbers, port_of
from killcheck.embedded.api.store import Store
from killcheck.embedded.api.validation.fields import at, invalid
from killcheck.kube.objects import Obj, dig

__all__ = ["NodePorts"]

_SERVICES = ("", "services")
_FIRST, _LAST = 30000, 32767
#: What a dry run shows where one would be handed out.
_DUMMY = 32768
_OUTSIDE = f"provided port is not in the valid range. The range of valid ports is {_FIRST}-{_LAST}"
_ALLOCATED = "provided port is already allocated"


class NodePorts:
    """Which ports of the nodes are taken."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._next = _FIRST

    def assign(self, service: Obj, old: Obj | None, *, dry_run: bool, asked: bool = True) -> None:
        """Give a Service the node ports that it needs, in place. Raises StatusError 422, or 500 of a health check's.

        A dry run looks whether a port is taken, and not whether there is such a one. ``asked=False``: no port of what
        is loaded is refused, for the cluster that it was taken from may have another range.
        """
        spec = service.get("spec") or {}
        operation = _Operation(self, numbers(old or {}), dry_run=dry_run, asked=asked)
        name = str(service["metadata"].get("name") or "")
        if exposed(spec):
            self._ports(spec, operation, name, new=old is None)
        if checks_health(spec) and not checks_health(dig(old, "spec", default={})):
            wanted = int(spec.get(HEALTH) or 0)
            why = operation.allocate(wanted) if wanted else None
            if why is not None:
                raise status.internal(f"failed to allocate requested HealthCheck NodePort {wanted}: {why}")
            spec[HEALTH] = wanted or operation.next()

    def _ports(self, spec: Obj, operation: _Operation, name: str, *, new: bool) -> None:
        """``new``: ports of one number (TCP and UDP) share a node port."""
        ports = spec.get("ports") or []
        known: dict[int, int] = {}
        for number, one in enumerate(ports):
            if not port_of(one) and not allocates(spec):
                continue
            shared = known.get(one["port"], 0)
            asked = port_of(one)
            if new and not shared and not asked:
                asked = next((port_of(other) for other in ports if other["port"] == one["port"] and port_of(other)), 0)
            if not asked:
                one["nodePort"] = shared or operation.next()
            elif asked != shared and (why := operation.allocate(asked)) is not None:
                raise status.invalid("Service", "", name, [invalid(f"{at('spec.ports', number)}.nodePort", asked, why)])
            else:
                one["nodePort"] = asked
            if new:
                known.setdefault(one["port"], one["nodePort"])

    def taken(self) -> set[int]:
        """The ports that any Service has."""
        return {port for service in self.store.values(_SERVICES) for port in numbers(service)}

    def after(self, taken: set[int]) -> int:
        """The next port that nobody has."""
        while self._next in taken:
            self._next = self._next + 1 if self._next < _LAST else _FIRST
        return self._next


class _Operation:
    """What one request allocates; what it had before (``own``) is its own."""

    def __init__(self, ports: NodePorts, own: set[int], *, dry_run: bool, asked: bool) -> None:
        self.ports, self.own, self.dry_run, self.asked = ports, own, dry_run, asked
        self.taken = ports.taken()

    def allocate(self, port: int) -> str | None:
        """Why not; None: it is given."""
        if port in self.own or not self.asked:
            return None
        if port in self.taken:
            return _ALLOCATED
        if not self.dry_run and not _FIRST <= port <= _LAST:
            return _OUTSIDE
        self.taken.add(port)
        return None

    def next(self) -> int:
        port = max([_DUMMY - 1, *self.taken]) + 1 if self.dry_run else self.ports.after(self.taken)
        self.taken.add(port)
        return port
