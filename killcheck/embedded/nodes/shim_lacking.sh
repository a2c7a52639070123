#!@BASH@ -p
# In a container: a command that its image has and this host lacks. Nobody can say how it would end: without an answer
# the container's outcome is unknown. An answer is an exit code, and what the command says on its error stream.
exec 3<>/dev/tcp/@AGENT_HOST@/@AGENT_PORT@ || exit 1
plain=
for word; do
  word=${word:0:400} word=${word//%/%25} word=${word// /%20} word=${word//$'\t'/%09} word=${word//$'\r'/%0D}
  plain="$plain =${word//$'\n'/%0A}"
done
printf '@AGENT_KEY@ lacking %s%s\n' "${0##*/}" "${plain:0:16000}" >&3
IFS=' ' read -r code said <&3
[ -z "$said" ] || printf '%s\n' "$said" >&2
exit "${code:-1}"
