#!@BASH@ -p
# In a container: sleep(1), in the cluster's time.
exec 3<>/dev/tcp/@AGENT_HOST@/@AGENT_PORT@ || exit 1
printf '@AGENT_KEY@ sleep %s\n' "$*" >&3
IFS= read -r answer <&3
case $answer in
ok) exit 0 ;;
*) printf 'sleep: %s\n' "${answer#error }" >&2; exit 1 ;;
esac
