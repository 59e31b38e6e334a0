# Measures the phases of a script that sources this file. `phase NAME COMMAND…` runs a phase.
# `phases` prints the duration of each phase.

phase_names=()
phase_seconds=()

phase() {
    local name=$1 begun=$SECONDS status=0
    shift
    "$@" || status=$?
    phase_names+=("$name")
    phase_seconds+=($((SECONDS - begun)))
    return "$status"
}

phases() {
    local i
    for i in "${!phase_names[@]}"; do
        printf '%6d s  %s\n' "${phase_seconds[i]}" "${phase_names[i]}"
    done >&2
}
