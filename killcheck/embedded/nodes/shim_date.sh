#!@BASH@ -p
# In a container: date(1), at the cluster's time.
exec 3<>/dev/tcp/@AGENT_HOST@/@AGENT_PORT@ || exit 1
printf '@AGENT_KEY@ now\n' >&3
IFS= read -r now <&3
exec 3>&-
if [ $# = 1 ] && [ "$1" = +%s ]; then  # what scripts ask most, and no program is needed to answer
  echo "${now%.*}"
  exit
fi
words=()
given=
base() {
  '@REAL@' -u -d "@$now" '+%Y-%m-%d %H:%M:%S.%N +0000'
}
relative() {
  case $1 in
  now | today) base ;;
  *ago* | *next* | *last* | yesterday* | tomorrow* | [+-][0-9]*[a-z]* | [0-9]*' '[a-z]*) printf '%s %s' "$(base)" "$1" ;;
  *) printf '%s' "$1" ;;
  esac
}
while [ $# -gt 0 ]; do
  case $1 in
  -d | --date) given=1; words+=(-d "$(relative "${2-}")"); shift ;;
  --date=*) given=1; words+=(-d "$(relative "${1#--date=}")") ;;
  -d*) given=1; words+=(-d "$(relative "${1#-d}")") ;;
  -r | -f | --reference | --file) given=1; words+=("$1" "${2-}"); shift ;;
  --reference=* | --file=*) given=1; words+=("$1") ;;
  *) words+=("$1") ;;
  esac
  shift
done
[ -n "$given" ] || words+=(-d "@$now")
exec '@REAL@' "${words[@]}"
