#!@BASH@ -p
# In a container: a command that its image has and this host lacks, so that nobody can say how it would end.
exec 3<>/dev/tcp/@AGENT_HOST@/@AGENT_PORT@ || exit 1
printf '@AGENT_KEY@ lacking %s\n' "${0##*/}" >&3
IFS= read -r _ <&3
exit 1
