#!@BASH@ -p
# In a container: kubectl. What waits by a clock is left to the shim beside it, which counts in the cluster's time.
# Its collector is left for when there is much to collect: of a short run it takes a third of the work.
exec 3<>/dev/tcp/@AGENT_HOST@/@AGENT_PORT@ || exit 1
export GOGC="${GOGC:-off}" GOMEMLIMIT="${GOMEMLIMIT:-192MiB}"
plain=
for word; do
  case $word in '' | *[!A-Za-z0-9._/,=:@-]*) word=_ ;; esac
  plain="$plain ${word:0:100}"
done
printf '@AGENT_KEY@ calm kubectl%s\n' "${plain:0:3000}" >&3
IFS= read -r answer <&3
exec 3>&-
if [ "$answer" = yes ]; then
  waits= limited=
  for word; do
    case $word in
    wait | drain) waits=1 limited=1 ;;
    rollout | delete | scale) waits=1 ;;
    --timeout | --timeout=*) limited=1 ;;
    esac
  done
  [ -n "$waits" ] && [ -n "$limited" ] || exec '@REAL@' "$@"
fi
exec '@BESIDE@' "$@"
