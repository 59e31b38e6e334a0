# Sourced by scripts/run. `progress STEP` reads cargo's output with CARGO_TERM_PROGRESS_WHEN=always. Every few seconds it prints how much of the build
# is done and how long the rest will take. Warnings and errors pass through.

# Cargo counts crates, but the last crate can take as long as the first hundred. So these are measured times: the seconds that a full build on two cores had
# taken after each tenth of a step's crates. A build that is slower so far is expected to stay slower.
declare -A measured=(
    [modules]='0 3 7 10 14 18 21 23 27 31 45'
    [service]='0 8 13 21 39 85 106 144 164 185 241'
)
steps=(modules service)
interval=5

# The seconds that the measured build had taken when step $1 was at crate $2 of $3.
measured_at() {
    local step seconds before=0 tenth=$((10 * $2 / $3))
    for step in "${steps[@]}"; do
        read -ra seconds <<<"${measured[$step]}"
        [[ $step != "$1" ]] || break
        ((before += seconds[10]))
    done
    local next=$((tenth < 10 ? tenth + 1 : 10))
    echo $((before + seconds[tenth] + (seconds[next] - seconds[tenth]) * (10 * $2 % $3) / $3))
}

# The remaining time when step $1 is at crate $2 of $3.
estimate() {
    local so_far all left
    so_far=$(measured_at "$1" "$2" "$3")
    all=$(measured_at "${steps[-1]}" 1 1)
    left=$((all - so_far))
    # A build that is faster because much was built before does not make the estimate of the rest shorter.
    ((SECONDS <= so_far)) || left=$((left * (SECONDS + 1) / (so_far + 1)))
    if ((left < 90)); then echo "$left s"; else echo "$(((left + 30) / 60)) min"; fi
}

progress() {
    local line printed=$SECONDS
    stdbuf -oL tr '\r' '\n' | while IFS= read -r line; do
        case $line in
        *' Building ['*)
            ((SECONDS - printed >= interval)) || continue
            [[ $line =~ ([0-9]+)/([0-9]+): ]] || continue
            printed=$SECONDS
            printf 'run: building the %s: %d of %d crates, about %s left\n' "$1" "${BASH_REMATCH[@]:1:2}" "$(estimate "$1" "${BASH_REMATCH[@]:1:2}")"
            ;;
        *' Compiling '* | *' Downloaded '* | *' Downloading '*) ;;
        *) printf '%s\n' "$line" ;;
        esac
    done >&2
}
