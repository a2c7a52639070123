"""Owners and what they own, in any order of making and deleting: what stays is what a model of the rules says."""

from controller_world import World
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from killcheck.kube import resources as r
from killcheck.kube.objects import name_of, owners, uid_of

#: Long enough for every controller to have had its say.
SETTLED_S = 3.0


class Garbage(RuleBasedStateMachine):
    """ConfigMaps that own ConfigMaps. ``owned``: for every one that should be there, the owners that it still names."""

    made = Bundle("made")

    @initialize()
    def begin(self):
        self.world = World(kubelet=False)
        self.owned = {}
        self.uids = {}
        self.count = 0

    def teardown(self):
        self.world.close()

    @rule(target=made, wanted=st.lists(made, max_size=3, unique=True), blocks=st.booleans())
    def make(self, wanted, blocks):
        there = [name for name in wanted if name in self.owned]
        name = f"c-{self.count}"
        self.count += 1
        refs = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": owner,
                "uid": self.uids[owner],
                "blockOwnerDeletion": blocks,
            }
            for owner in there
        ]
        found = self.world.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "data": {},
                "metadata": {"name": name, "namespace": "ns", "ownerReferences": refs},
            }
        )
        self.owned[name], self.uids[name] = set(there), uid_of(found)
        return name

    @rule(name=made, policy=st.sampled_from(["Background", "Foreground", "Orphan"]))
    def delete(self, name, policy):
        if name not in self.owned:
            return
        self.world.kube.delete(r.CONFIGMAPS, name, "ns", propagation=policy)
        self.world.run(SETTLED_S)
        if policy == "Orphan":
            del self.owned[name]
            for others in self.owned.values():
                others.discard(name)
        else:
            self._gone(name)

    @rule(target=made, name=consumes(made))
    def made_anew_under_the_same_name(self, name):
        """Another object with an owner's name is no owner: the uid says so."""
        if name in self.owned:
            return name
        found = self.world.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}}
        )
        self.owned[name], self.uids[name] = set(), uid_of(found)
        return name

    @rule(target=made)
    def pause(self):
        self.world.run(30)
        return multiple()

    def _gone(self, name):
        del self.owned[name]
        for other, left in list(self.owned.items()):
            if name in left:
                left.discard(name)
                if not left and other in self.owned:
                    self._gone(other)

    @invariant()
    def what_is_there_is_what_should_be(self):
        if not hasattr(self, "world"):
            return
        self.world.run(SETTLED_S)
        found = {name_of(o): o for o in self.world.kube.list(r.CONFIGMAPS, "ns").items if name_of(o) in self.uids}
        assert set(found) == set(self.owned)
        for name, obj in found.items():
            assert {owner["name"] for owner in owners(obj)} == self.owned[name]
            assert "deletionTimestamp" not in obj["metadata"]


Garbage.TestCase.settings = settings(
    max_examples=15, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
TestGarbage = Garbage.TestCase
