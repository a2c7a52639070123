"""Server-side apply as a whole: in whatever order is written, every field has an owner and every owner's field is."""

import json

from api_world import World
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from killcheck.kube import resources as r

KEYS, VALUES = st.sampled_from("abcd"), st.sampled_from(["1", "2", "3"])
DATA = st.dictionaries(KEYS, VALUES, max_size=4)
APPLIERS = st.sampled_from(["argocd", "flux", "kubectl"])
PATH = r.CONFIGMAPS.path("default", "shared")


class Managers(RuleBasedStateMachine):
    """A ConfigMap, three appliers and one who patches; beside it what the rules of ownership make of it."""

    def __init__(self):
        super().__init__()
        self.world = World()
        self.world.kube.create(r.CONFIGMAPS, {"metadata": {"name": "shared"}}, "default")
        self.data = {}
        self.owners = {}

    @rule(data=DATA, who=APPLIERS, force=st.booleans())
    def apply(self, data, who, force):
        taken = {
            key
            for key, value in data.items()
            if key in self.data and self.data[key] != value and self.owners[key] - {who}
        }
        done = self.world.raw(
            "PATCH",
            f"{PATH}?fieldManager={who}&force={str(force).lower()}",
            # An empty map is a field by itself, which two managers may not both have; left out, it is nobody's.
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}}
            | ({"data": data} if data else {}),
            "application/apply-patch+yaml",
        )
        if taken and not force:
            assert done.status == 409
            assert {cause["field"] for cause in done.body["details"]["causes"]} == {f".data.{key}" for key in taken}
            return
        assert done.status == 200
        for key, owners in list(self.owners.items()):
            if who in owners and key not in data:
                owners.discard(who)
                if not owners:
                    del self.owners[key], self.data[key]
        for key, value in data.items():
            if key in taken:
                self.owners[key] = {who}
            self.owners.setdefault(key, set()).add(who)
            self.data[key] = value

    @rule(key=KEYS, value=VALUES)
    def patch(self, key, value):
        self.world.raw("PATCH", f"{PATH}?fieldManager=hand", {"data": {key: value}}, "application/merge-patch+json")
        if self.data.get(key) != value:
            self.owners[key] = {"hand"}
        self.data[key] = value

    @rule(key=KEYS)
    def remove(self, key):
        self.world.raw("PATCH", f"{PATH}?fieldManager=hand", {"data": {key: None}}, "application/merge-patch+json")
        self.owners.pop(key, None)
        self.data.pop(key, None)

    @invariant()
    def what_is_stored_and_who_owns_it_is_as_the_rules_say(self):
        obj = self.world.raw("GET", PATH).body
        assert obj.get("data", {}) == self.data
        owners = {}
        for entry in obj["metadata"].get("managedFields", []):
            for element in entry["fieldsV1"].get("f:data", {}):
                if element != ".":
                    owners.setdefault(element.removeprefix("f:"), set()).add(entry["manager"])
        assert owners == {key: owner for key, owner in self.owners.items() if key in self.data}, json.dumps(obj)


Managers.TestCase.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)
TestManagers = Managers.TestCase
