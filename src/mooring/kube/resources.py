"""Which resource of the API is meant: the values that give paths."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlencode


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of the API server, such as pods; `group` is empty for the core group."""

    group: str
    version: str
    plural: str
    namespaced: bool = True
    kind: str = ""

    @property
    def api_version(self) -> str:
        """Return what objects of it say as `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", sub: str = "") -> str:
        """Return the path of the collection, of one object or of a sub-resource of it."""
        parts = ["/apis/" + self.group if self.group else "/api", self.version]
        if namespace and self.namespaced:
            parts += "namespaces", quote(namespace, safe="")
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if sub:
            parts.append(sub)
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True, slots=True)
class Select:
    """Which objects of a resource are meant; all of them by default."""

    namespace: str = ""
    labels: str = ""
    """A label selector, as in `app=web,tier!=test`."""
    fields: str = ""
    """A field selector, as in `spec.schedulerName=mooring`."""
    metadata_only: bool = False
    """Only names, labels, annotations, owners: all that is needed of most owners."""

    def query(self, **more: str) -> str:
        """Return the query of a URL, with `?`; empty parameters are left out."""
        pairs = {"labelSelector": self.labels, "fieldSelector": self.fields, **more}
        text = urlencode({key: value for key, value in pairs.items() if value})
        return "?" + text if text else ""


ALL = Select()

PODS = Resource("", "v1", "pods", kind="Pod")
NODES = Resource("", "v1", "nodes", namespaced=False, kind="Node")
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False, kind="Namespace")
CONFIG_MAPS = Resource("", "v1", "configmaps", kind="ConfigMap")
EVENTS = Resource("events.k8s.io", "v1", "events", kind="Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", kind="Lease")
DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", kind="PodDisruptionBudget")
JOBS = Resource("batch", "v1", "jobs", kind="Job")
REPLICA_SETS = Resource("apps", "v1", "replicasets", kind="ReplicaSet")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", kind="StatefulSet")
