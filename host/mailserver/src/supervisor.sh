# Runs one daemon. Ends the daemon and all its processes when standard input closes, which happens
# when the host stops the daemon or dies. Exits early if the daemon exits. Arguments: the file for
# the daemon's output, the time before the daemon is killed (in fiftieths of a second), and the
# command.

output=$1
grace=$2
shift 2
exec 3<&0 </dev/null

# A new session, so that one signal reaches the daemon and all its child processes.
setsid "$@" >"$output" 2>&1 3<&- &
daemon=$!
cat <&3 >/dev/null &
host=$!

while kill -0 "$daemon" && kill -0 "$host"; do
    wait -n
done 2>/dev/null

# The process group does not exist until setsid has run.
signal() { kill "-$1" -- "-$daemon" || kill "-$1" "$daemon"; } 2>/dev/null

# Succeeds if a process of the group is running. Zombies do not count, because their new parent may
# take seconds to reap them.
is_running() {
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
    # The signal is sent repeatedly, because it can miss a process that is being forked.
    ((i % 10)) || signal TERM
    is_running || exit 0
    sleep 0.02
done
signal KILL
while is_running; do
    sleep 0.01
done
