#!@BASH@ -p
# In a container: curl. While the cluster answers at once this is the host's own; limits and retries that would have to
# wait are left to the shim beside it, which counts them in the cluster's time.
ask() {
  exec 3<>/dev/tcp/@AGENT_HOST@/@AGENT_PORT@ || exit 1
  printf '@AGENT_KEY@ %s\n' "$1" >&3
  IFS= read -r answer <&3
  exec 3>&-
}
ask calm
if [ "$answer" = yes ]; then
  timed= away=
  for word; do
    case $word in
      --retry* | --max-time* | --connect-timeout* | -m* | -[a-zA-Z]*m) timed=1 ;;
      *://127.* | *://@SERVICE_IP@*) ;;
      *://[0-9]*.[0-9]*.[0-9]*.[0-9]*) away=1 ;;  # perhaps nobody answers there: the agent knows
    esac
  done
  [ -z "$away" ] || exec '@BESIDE@' "$@"
  [ -n "$timed" ] || exec '@REAL@' "$@"
  '@REAL@' "$@" --retry 0
  code=$?
  ask "transient $code"
  [ "$answer" = yes ] || exit "$code"
  exec '@BESIDE@' "--killcheck-tried=$code" "$@"
fi
exec '@BESIDE@' "$@"
