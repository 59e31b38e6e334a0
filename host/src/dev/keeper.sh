# Keeps one daemon: starts it, and ends it with all its processes when the standard input closes, that is when the host stops it or
# dies in whatever way. Ends early when the daemon does. Arguments: the file for the daemon's own words, how long it may
# take to end before it is killed (in fiftieths of a second), its command.

output=$1
grace=$2
shift 2
exec 3<&0 </dev/null

# A session of its own, so that one signal reaches the daemon with everything it forked.
setsid "$@" >"$output" 2>&1 3<&- &
daemon=$!
cat <&3 >/dev/null &
host=$!

while kill -0 "$daemon" && kill -0 "$host"; do
    wait -n
done 2>/dev/null

# Before setsid has run there is no group yet.
signal() { kill "-$1" -- "-$daemon" || kill "-$1" "$daemon"; } 2>/dev/null

# Whether anything of the group runs. A zombie does not: whoever adopted it may take seconds to notice its end.
alive() {
    local stat line
    for stat in /proc/[0-9]*/stat; do
        read -r line <"$stat" || continue
        set -- ${line##*) }
        [[ $3 == "$daemon" && $1 != [ZX] ]] && return 0
    done
    return 1
} 2>/dev/null

kill "$host" 2>/dev/null
for ((i = 0; i < grace; i++)); do
    # Again and again: a process that was being forked may have missed it.
    ((i % 10)) || signal TERM
    alive || exit 0
    sleep 0.02
done
signal KILL
while alive; do
    sleep 0.01
done
