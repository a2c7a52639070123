#!@BASH@ -p
# In a container: kubectl. What waits is left to the shim beside it, which counts in the cluster's time.
exec 3<>/dev/tcp/@AGENT_HOST@/@AGENT_PORT@ || exit 1
printf '@AGENT_KEY@ calm\n' >&3
IFS= read -r answer <&3
exec 3>&-
if [ "$answer" = yes ]; then
  waits=
  for word; do
    case $word in wait | rollout | delete | drain | scale) waits=1 ;; esac
  done
  [ -n "$waits" ] || exec '@REAL@' "$@"
fi
exec '@BESIDE@' "$@"
