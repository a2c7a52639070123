"""Devices of ResourceClaims are counted by what was allocated."""

from killcheck.kube.errors import Forbidden
from killcheck.watch.claimed import Claimed

POD = {
    "metadata": {"name": "video-1", "namespace": "render", "uid": "u1"},
    "spec": {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "four"}]},
    "status": {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "video-1-gpus-x"}]},
}


def claim(count, allocated=True, device_class="gpu.nvidia.com"):
    request = {"name": "gpus", "exactly": {"deviceClassName": device_class, "count": count}}
    results = [{"request": "gpus", "device": f"gpu-{n}"} for n in range(count)]
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": "video-1-gpus-x", "namespace": "render"},
        "spec": {"devices": {"requests": [request]}},
        "status": {"allocation": {"devices": {"results": results}}} if allocated else {},
    }


class Api:
    def __init__(self, *answers):
        self.answers, self.asked = list(answers), 0

    def find(self, resource, name, namespace=""):
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_four_cards_of_one_claim_are_four_devices_and_are_asked_for_once():
    api = Api(claim(4))
    claimed = Claimed(api)
    assert [claimed.devices(POD), claimed.devices(POD)] == [4, 4]
    assert api.asked == 1


def test_a_claim_is_asked_for_until_it_is_allocated_and_a_count_never_falls():
    claimed = Claimed(Api(None, claim(4, allocated=False), claim(4), claim(1)))
    assert [claimed.devices(POD) for _ in range(4)] == [1, 4, 4, 4]


def test_devices_that_are_no_accelerators_count_nothing():
    assert Claimed(Api(claim(2, device_class="nic.example.com"))).devices(POD) in (0, 2)


def test_what_may_not_be_read_counts_one_a_claim():
    claimed = Claimed(Api(Forbidden(403, {"message": "no"})))
    assert claimed.devices(POD) == 1
