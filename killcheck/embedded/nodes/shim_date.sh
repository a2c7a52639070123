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
# How many days ahead the weekday is that a phrase names, as date(1) reckons it: "next friday" is never today.
to_weekday() {
  local days=(sun mon tue wed thu fri sat) at today=$('@REAL@' -d "@$now" +%w)
  for at in "${!days[@]}"; do
    [ "${days[at]}" = "${2:0:3}" ] || continue
    local ahead=$(((at - today + 7) % 7))
    case $1 in
    next) [ "$ahead" != 0 ] || ahead=7 ;;
    last) ahead=$((ahead - 7)) ;;
    esac
    echo "$ahead"
  done
}
relative() {
  local said=${1,,} timed= ahead=
  local weekday='(^|[^a-z])((next|last|this) +)?((sun|mon|tues?|wed(nes)?|thu(rs)?|fri|sat(ur)?)(day)?)([^a-z]|$)'
  # A time of its own, which is then not the time of now.
  [[ $said =~ (^|[^0-9])[0-9]{1,2}(:[0-9]{2}| ?[ap]m) || $said =~ noon|midnight ]] && timed=1
  case $said in
  @* | *tz=* | *[0-9][0-9][0-9][0-9][-/][0-9]* | *[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]*) printf '%s' "$1" ; return ;;
  esac
  if [[ $said =~ $weekday ]]; then
    ahead=$(to_weekday "${BASH_REMATCH[3]}" "${BASH_REMATCH[4]}")
    said=${said/"${BASH_REMATCH[2]}${BASH_REMATCH[4]}"/}
    printf '%s %s %s' "$('@REAL@' -d "@$now" +%F)" "${ahead:-0} days" "$said"
  elif [ -n "$timed" ]; then
    printf '%s %s' "$('@REAL@' -d "@$now" +%F)" "$1"
  else
    case $said in
    now | today) base ;;
    *ago* | *next* | *last* | yesterday* | tomorrow* | [+-][0-9]*[a-z]* | [0-9]*' '[a-z]*) printf '%s %s' "$(base)" "$1" ;;
    *) printf '%s' "$1" ;;
    esac
  fi
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
