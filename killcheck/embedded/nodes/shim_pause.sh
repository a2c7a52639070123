#!@BASH@ -p
# In a container: the pause image's program, which goes on in the cluster's time until it is told to end.
trap 'exit 0' TERM INT
while :; do
  exec 3<>/dev/tcp/@AGENT_HOST@/@AGENT_PORT@ || exit 1
  printf '@AGENT_KEY@ sleep 604800\n' >&3
  IFS= read -r answer <&3 || exit 1
  exec 3>&-
done
