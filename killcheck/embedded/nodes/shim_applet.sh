#!@BASH@ -p
# In a container: an applet of busybox, for which a program of this host stands. What the applet does not know is
# refused in its words; all else is the program's.
name=${0##*/} short='@SHORT@' long=' @LONG@ '
refuse() {
  printf '%s: %s\n' "$name" "$1" >&2
  exit 1
}
dated() {
  local no='@REFUSED@'
  [ -z "$no" ] || ! [[ $1 =~ $no ]] || [[ $1 =~ ^[A-Z][a-z][a-z]\ +[0-9]+\ [0-9:]+\ [0-9]+$ ]] || refuse "invalid date '$1'"
}
next= formatted=
case "$name $*" in date*' -D'*) formatted=1 ;; esac
for word; do
  if [ -n "$next" ]; then
    [ "$next$formatted" != d ] || dated "$word"
    next=
    continue
  fi
  case $word in
  --) break ;;
  --*)
    given=${word#--} given=${given%%=*}
    case $long in
    *" $given"*)
      rest=${long#*" $given"} rest=${rest%%' '*}
      case $given$rest in
      date:) case $word in *=*) [ -n "$formatted" ] || dated "${word#*=}" ;; *) next=d ;; esac ;;
      *:) case $word in *=*) ;; *) next=+ ;; esac ;;
      esac
      ;;
    *) refuse "unrecognized option: $given" ;;
    esac
    ;;
  -?*)
    letters=${word#-}
    while [ -n "$letters" ]; do
      one=${letters:0:1} letters=${letters:1}
      case $short in
      *"$one::"*) letters= ;;
      *"$one:"*)
        if [ -z "$letters" ]; then next=$one; else [ "$one$formatted" != d ] || dated "$letters"; fi
        letters=
        ;;
      *"$one"*) ;;
      *) refuse "unrecognized option: $one" ;;
      esac
    done
    ;;
  *) [ -z '@AHEAD@' ] || break ;;
  esac
done
[ -z "$formatted" ] || exec '@LACKING@/date' "$@"
exec '@REAL@' "$@"
