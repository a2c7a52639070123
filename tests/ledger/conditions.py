"""A grammar of what may stand before a switch's write: what a condition rests on, and how a program asks it.

Whatever is unknown leaves the switch open; whatever is the same each night, or tried, does not. Nobody has listed the
products of the two: a source and a way to ask are written once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

OFF = "kubectl scale deploy/vllm -n inference --replicas=0"
#: Commands whose output may be otherwise on another night.
UNKNOWN = (
    "cat /proc/loadavg",
    "curl -s http://169.254.169.254/latest/meta-data/placement/availability-zone",
    "uptime",
    "nvidia-smi -L",
    "hostname",
    "echo $RANDOM",
    "echo $HOSTNAME",
    "echo $$",
    "date +%N",
    "date +%s | cut -c10",
    "df --output=pcent /",
    "stat -c %Y /etc/hosts",
    "ls /data",
    "head -c2 /dev/urandom",
    "uuidgen",
    "nslookup db.prod",
    "psql -Atc 'select open from nights'",
    "redis-cli get hold",
    "aws ec2 describe-instances --query x",
    "curl -s http://prometheus:9090/api/v1/query?query=up",
    "wget -qO- https://status.example.com/open",
    "kubectl get nodes -o name",
    "kubectl get events -n inference -o name",
    "kubectl get lease gpu -n inference -o jsonpath='{.spec.holderIdentity}'",
    "kubectl top pods -n inference",
    "kubectl logs deploy/vllm -n inference",
    "kubectl get pods -A --field-selector=status.phase=Running -o name",
    "kubectl get deploy vllm -n inference -o jsonpath='{.metadata.resourceVersion}'",
    "kubectl get deploy vllm -n inference -o jsonpath='{.status.conditions[0].status}'",
    "kubectl get deploy vllm -n inference -o json | jq .metadata.generation",
    "kubectl get deploy vllm -n inference -o json | jq -r 'now'",
    "kubectl get deploy vllm -n inference -o json | md5sum",
    "kubectl get deploy vllm -n inference --no-headers | awk '{print $2}'",
    "kubectl get --raw /metrics",
    "python3 -c 'import random; print(random.random())'",
    "gpu-window --tonight",
)
#: ...and ways to let the write hang on them: S is the command.
ASKED = (
    '[ "$(S)" = x ] || exit 0\nOFF',
    'x=$(S)\nif [ "${x:-0}" != y ]; then OFF; fi',
    "case $(S) in a*) OFF;; esac",
    "case x in $(S)) OFF;; esac",
    "S | grep -q a && exit 0\nOFF",
    "S | awk '{exit $1 > 2}' || exit 0\nOFF",
    'S | while read -r line; do [ "$line" = a ] && OFF; done',
    "for one in $(S | tr a b); do test $one = x && OFF; done",
    'until [ "$(S)" = x ]; do sleep 5; done\nOFF',
    'ready() { [ -n "$1" ] && [ "$1" != z ]; }\nready "$(S)" || exit 0\nOFF',
    'late() { if test "$(S)" = x; then return 1; fi; OFF; }\nlate',
    "S > /tmp/said; grep -q a /tmp/said || exit 0\nOFF",
    "[[ $(S) == a* ]] && { echo held; exit 0; }\nOFF",
    "n=$(S | sed s/a/b/); (( n > 2 )) && exit 0\nOFF",
    'hold=; if S | grep -q a; then hold=1; fi\n[ -n "$hold" ] && exit 0\nOFF',
    'set -e\nx=$(S); echo "$x" | grep -q a\nOFF',
    'set -- "$(S)"; [ "$1" = a ] && exit 0\nOFF',
    'read x <<< "$(S)"; [ "$x" = a ] && exit 0\nOFF',
    'list=(a "$(S)"); [ "${list[1]}" = a ] && exit 0\nOFF',
    "kubectl scale deploy/vllm -n inference --replicas=$(S | wc -c)",
    "bash -c 'test \"$(S)\" = a' || exit 0\nOFF",
    'while true; do if [ "$(S)" = a ]; then break; fi; sleep 60; done\nOFF',
    '( [ "$(S)" = a ] ) || exit 0\nOFF',
    "export X=$(S)\npython3 -c \"\nimport os, subprocess\nif os.environ['X'] == 'a': subprocess.run(['kubectl', 'scale', "
    "'deploy/vllm', '-n', 'inference', '--replicas=0'], check=True)\"",
)
#: Ways of a shell's own to carry it: descriptors, jobs, traps, variables that it sets itself.
PECULIAR = (
    "cp /proc/loadavg /tmp/x; grep -q 9 /tmp/x && exit\nOFF",
    'printf -v x %s "$RANDOM"; [ $x -gt 4 ] && exit\nOFF',
    'declare "x=$(nvidia-smi -L)"; [ -n "$x" ] || exit\nOFF',
    "set -- $(kubectl get nodes -o name); [ $# -gt 2 ] && exit\nOFF",
    ": $(uptime); [[ $_ == *9 ]] && exit\nOFF",
    "uptime | grep -q 9 | cat; [ ${PIPESTATUS[1]} = 0 ] && exit\nOFF",
    "[[ $(uptime) =~ ([0-9]+) ]]; [ ${BASH_REMATCH[1]} -gt 4 ] && exit\nOFF",
    "uptime | { read; [ $REPLY = a ] && OFF; }",
    "exec 3< /proc/loadavg; read x <&3; [ ${x%% *} = 1 ] && exit\nOFF",
    'x=$(redis-cli get on); : "${x:?}"\nOFF',
    '[ -n "$(redis-cli get hold)" ] && kill $$\nOFF',
    "redis-cli get hold | grep -q x && exec sleep 60\nOFF",
    "redis-cli get hold | grep -q x & wait $! && exit 0\nOFF",
    "if redis-cli get x; then off() { :; }; fi\noff || OFF",
    'trap "exit 0" ERR; redis-cli ping\nOFF',
    "$(redis-cli get verb) scale deploy/vllm --replicas=0\nOFF",
    "mapfile -t a < <(redis-cli keys x); [ ${#a[@]} -gt 2 ] && exit\nOFF",
    '[ "$(cat <<EOF\n$(redis-cli get h)\nEOF\n)" = a ] && exit\nOFF',
    ". /tmp/state.sh\nOFF",
    "set -e; nc -z db 5432; OFF",
    "set -eo pipefail; redis-cli get x | tee /tmp/y; OFF",
    '[ -z "${HOSTNAME##*[13579]}" ] && exit\nOFF',
    "sort -R /config/holidays | head -1 | grep -q x && exit\nOFF",
    "[ /config/holidays -nt /tmp ] && exit\nOFF",
    "kubectl scale deploy/vllm -n inference --current-replicas=1 --replicas=0",
    "kubectl delete pods -n inference --field-selector=status.phase=Running",
    "[ $(( SECONDS % 2 )) = 0 ] || exit\nOFF",
    '[ "$(kubectl get deploy vllm -n inference -o jsonpath={.spec.replicas})" -gt 1 ] || exit 0\nOFF',
    "kubectl get deploy vllm -n inference -o yaml | grep -q 'availableReplicas: 1' || exit\nOFF",
    'curl -s "$API/apis/apps/v1/namespaces/inference/deployments?limit=3" | jq -r .items[].metadata.name '
    "| xargs -n1 kubectl scale -n inference --replicas=0 deploy",
    "perl -e 'exit rand() < .5' || exit\nOFF",
    "[ $RANDOM -gt 9 ] || gpu-off --all",
)
#: Lines of which each lets the write pass on every night, or on those that a drill tries.
KNOWN = (
    "",
    "TOKEN=$(curl -fsS -X PUT http://169.254.169.254/latest/api/token) || exit 9",
    "set -euo pipefail",
    '[ "$DRY" = true ] && exit 0',
    '[ "${ENABLED:-true}" = true ] || exit 0',
    'if [ "$(date +%u)" -gt 5 ]; then echo weekend; exit 0; fi',
    "case $(date +%H) in 0[0-6]) ;; *) exit 0;; esac",
    'grep -qx "$(date +%F)" /config/holidays && exit 0',
    '[ "$(kubectl get deploy vllm -n inference -o jsonpath={.spec.replicas})" = 0 ] && exit 0',
    "kubectl get deploy vllm -n inference -o json | jq -e '.spec.replicas > 0' > /dev/null || exit 0",
    "kubectl get deploy -n inference -o name | grep -q . || exit 0",
    "kubectl get deploy -n inference --no-headers | awk '{print $1}' | grep -qx vllm || exit 0",
    "kubectl get deploy vllm -n inference > /dev/null || exit 1",
    "kubectl auth can-i patch deployments/scale -n inference || exit 1",
    "until kubectl version > /dev/null 2>&1; do sleep 2; done",
    "n=0; until curl -sf http://db:5432; do n=$((n+1)); [ $n -gt 9 ] && break; sleep 2; done",
    "for i in 1 2 3; do curl -sf https://hooks.example.com/bye && break; sleep 1; done",
    "curl -fsS https://hooks.example.com/bye -d stopping || true",
    "sleep $((RANDOM % 20))",
    'for ns in inference; do [ -n "$ns" ] || exit 1; done',
    "trap 'echo over' EXIT",
    'log() { echo "$(date -Is) $(hostname) $*"; }; log stopping',
    "end=$(( $(date +%s) + 60 )); while [ $(date +%s) -lt $end ]; do curl -sf http://idle && break; sleep 5; done",
    "[ $(( 10#$(date +%V) % 2 )) -eq 0 ] && echo even",
    "mkdir -p /tmp/w && cd /tmp/w",
    "if ! kubectl annotate deploy/vllm -n inference off-at=$(date +%s); then echo no mark; fi",
)
#: The same in Python: expressions that are unknown, and statements that ask E.
UNKNOWN_PY = (
    "random.random()",
    "random.choice(names)",
    "socket.gethostname()",
    "os.getpid()",
    "os.getloadavg()[0]",
    "uuid.uuid4().int",
    "hash('a')",
    "datetime.datetime.now().microsecond",
    "int(time.time()) % 3",
    "str(time.time())[-1]",
    "open('/proc/uptime').read()",
    "os.listdir('/data')",
    "requests.get('http://prometheus:9090/api/v1/query').json()['data']",
    "urllib.request.urlopen('https://status.example.com').read()",
    "psutil.cpu_percent()",
    "redis.Redis().get('hold')",
    "len(core.list_node().items)",
    "core.list_namespaced_event('inference').items",
    "len(core.list_pod_for_all_namespaces().items)",
    "apps.read_namespaced_deployment('vllm', 'inference').status.ready_replicas",
    "apps.read_namespaced_deployment('vllm', 'inference').metadata.resource_version",
    "apps.read_namespaced_deployment('vllm', 'inference').status.conditions[0].status",
    "subprocess.check_output(['nvidia-smi', '-L'], text=True)",
    "json.loads(subprocess.check_output(['kubectl', 'get', 'deploy', 'vllm', '-o', 'json']))['metadata']['generation']",
    "os.environ.get('HOSTNAME', '')",
    "window.open_tonight()",
)
ASKED_PY = (
    "if E == 'a':\n    off()",
    "x = E\nif not x:\n    sys.exit(0)\noff()",
    "assert E != 3\noff()",
    "def ready():\n    return E != 'a'\nif ready():\n    off()",
    "while E == 'a':\n    time.sleep(5)\noff()",
    "for _ in range(int(E)):\n    off()",
    "[off() for name in names if E != name]",
    "hold = False\nif E:\n    hold = True\nif not hold:\n    off()",
    "state = {'x': E}\noff() if state['x'] == 'a' else None",
    "match E:\n    case 'a':\n        pass\n    case _:\n        off()",
    "try:\n    if E == 'a':\n        raise ValueError('no')\n    off()\nexcept ValueError:\n    pass",
    "class Switch:\n    def __init__(self):\n        self.held = E\n    def run(self):\n        if self.held != 1:\n"
    "            off()\nSwitch().run()",
    "apps.patch_namespaced_deployment_scale('vllm', 'inference', {'spec': {'replicas': int(E)}})",
    "(lambda x: off() if x else None)(E)",
)
KNOWN_PY = (
    "import boto3; print(boto3.client('sts').get_caller_identity()['Arn'])",
    "",
    "if os.environ.get('ENABLED', 'true') != 'true':\n    sys.exit(0)",
    "if datetime.date.today().weekday() >= 5:\n    sys.exit(0)",
    "if datetime.datetime.now(ZoneInfo('Europe/Berlin')).hour not in (3, 4):\n    sys.exit(0)",
    "if datetime.date.today().isoformat() in open('/config/holidays').read().split():\n    sys.exit(0)",
    "if apps.read_namespaced_deployment('vllm', 'inference').spec.replicas == 0:\n    sys.exit(0)",
    "if not [d for d in apps.list_namespaced_deployment('inference').items if d.metadata.labels.get('gpu')]:\n    pass",
    "for attempt in range(3):\n    try:\n        requests.post('https://hooks.example.com/bye')\n        break\n"
    "    except Exception:\n        time.sleep(1)",
    "time.sleep(random.uniform(0, 20))",
    "log = logging.getLogger('off')\nlog.info('on %s', socket.gethostname())",
    "end = time.time() + 60\nwhile time.time() < end:\n    try:\n        requests.get('http://idle')\n        break\n"
    "    except Exception:\n        time.sleep(5)",
    "if not names:\n    raise SystemExit('no targets')",
)
_HEAD = """import datetime, json, logging, os, random, socket, subprocess, sys, time, urllib.request, uuid
import psutil, redis, requests, window
from zoneinfo import ZoneInfo
from kubernetes import client, config
config.load_incluster_config()
apps, core = client.AppsV1Api(), client.CoreV1Api()
names = ["vllm"]
def off():
    apps.patch_namespaced_deployment_scale("vllm", "inference", {"spec": {"replicas": 0}})
"""


def unknown_shells() -> Iterator[tuple[str, str]]:
    """(source, program) of every unknown condition in a shell."""
    for source, asked in product(UNKNOWN, ASKED):
        if "bash -c '" in asked and "'" in source:
            continue
        yield source, asked.replace("S", source, 1).replace("OFF", OFF)


def peculiar_shells() -> Iterator[tuple[str, str]]:
    """The same by what a shell has of its own."""
    for line in PECULIAR:
        yield line, line.replace("OFF", OFF)


#: The same of Python's own.
PECULIAR_PY = (
    "import state\nif state.HOLD:\n    sys.exit()\noff()",
    "r = random.random\nif r() > .5:\n    off()",
    "class A:\n    @property\n    def held(self):\n        return random.random() > .5\nif not A().held:\n    off()",
    "class A:\n    def __bool__(self):\n        return random.random() > .5\nif A():\n    off()",
    "try:\n    requests.get('http://x').raise_for_status()\nexcept Exception:\n    sys.exit(0)\noff()",
    "requests.get('http://x').raise_for_status()\noff()",
    "def g():\n    yield random.random()\nfor x in g():\n    if x > .5:\n        off()",
    "import threading\ndef w():\n    if random.random() > .5:\n        off()\nthreading.Thread(target=w).start()",
    "x = []\nx.append(random.random())\nif x[0] > .5:\n    off()",
    "if (y := random.random()) > .5:\n    off()",
    "if datetime.datetime.now().isoformat()[-1] in '02468':\n    off()",
    "if str(datetime.datetime.now()).endswith('3'):\n    off()",
    "d = apps.read_namespaced_deployment('vllm', 'inference')\nif d.spec.replicas > 1:\n    off()",
    "d = apps.read_namespaced_deployment('vllm', 'inference').to_dict()\nif str(d).count('True'):\n    off()",
    "if os.path.getsize('/data/x'):\n    off()",
    "exec('if random.random() > .5: off()')",
    "sys.exit(0) if os.system('ping -c1 db') else off()",
)


def peculiar_pythons() -> Iterator[tuple[str, str]]:
    """The same by what Python has of its own."""
    for line in PECULIAR_PY:
        yield line, _HEAD + line


def unknown_pythons() -> Iterator[tuple[str, str]]:
    """The same in Python."""
    for source, asked in product(UNKNOWN_PY, ASKED_PY):
        head, _, tail = asked.replace("ValueError", "\0").replace("Switch", "\1").partition("E")
        yield source, _HEAD + (head + source + tail).replace("\0", "ValueError").replace("\1", "Switch")


def known_shells() -> Iterator[str]:
    """Programs whose conditions are known, alone and two by two."""
    for first, second in product(KNOWN, repeat=2):
        yield f"{first}\n{second}\n{OFF}"


def known_pythons() -> Iterator[str]:
    """The same in Python."""
    for first, second in product(KNOWN_PY, repeat=2):
        yield f"{_HEAD}{first}\n{second}\noff()"
