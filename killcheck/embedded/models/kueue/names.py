"""Kueue's labels, annotations, finalizers, gates and resources (apis/kueue/v1beta2/constants.go, pkg/controller)."""

from __future__ import annotations

from killcheck.kube.resources import Resource

GROUP = "kueue.x-k8s.io"
#: Served as v1beta1 and v1beta2; what the model reads is spelt alike in both.
CLUSTERQUEUES = Resource(GROUP, "v1beta1", "clusterqueues", "ClusterQueue", False)
LOCALQUEUES = Resource(GROUP, "v1beta1", "localqueues", "LocalQueue")
FLAVORS = Resource(GROUP, "v1beta1", "resourceflavors", "ResourceFlavor", False)
COHORTS = Resource(GROUP, "v1beta1", "cohorts", "Cohort", False)
CHECKS = Resource(GROUP, "v1beta1", "admissionchecks", "AdmissionCheck", False)
WORKLOADS = Resource(GROUP, "v1beta1", "workloads", "Workload")
PRIORITYCLASSES = Resource(GROUP, "v1beta1", "workloadpriorityclasses", "WorkloadPriorityClass", False)

QUEUE = f"{GROUP}/queue-name"
PRIORITY_CLASS = f"{GROUP}/priority-class"
JOB_UID = f"{GROUP}/job-uid"
#: On pods: the label and the finalizer have the same name.
MANAGED = f"{GROUP}/managed"
BY_PARENT = f"{GROUP}/pod-suspending-parent"
GATE = f"{GROUP}/admission"
#: On pods that are admitted together: the group's name (a label), how many they are and how (annotations).
POD_GROUP = f"{GROUP}/pod-group-name"
TOTAL_COUNT = f"{GROUP}/pod-group-total-count"
FAST = f"{GROUP}/pod-group-fast-admission"
SERVING = f"{GROUP}/pod-group-serving"
UNRETRIABLE = f"{GROUP}/retriable-in-group"
IN_USE = f"{GROUP}/resource-in-use"
STOPPING = f"{GROUP}/stopping"

#: Namespaces whose pods, Jobs and Deployments Kueue leaves alone (config/components/webhook).
SPARED = frozenset({"kube-system", "kueue-system"})
#: How Kueue signs the events of its three halves (cmd/kueue, jobframework, scheduler: "kueue-admission").
ADMISSION = "kueue-admission"
WORKLOAD_CONTROLLER = "kueue-workload-controller"
