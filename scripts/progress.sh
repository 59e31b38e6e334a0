# Sourced by scripts/run. `progress STEP` reads the output of cargo with
# CARGO_TERM_PROGRESS_WHEN=always. Every few seconds it prints the progress of the build and the
# estimated remaining time. It prints warnings and errors unchanged.

# Cargo reports the number of built crates, but the last crate can take as long as the first
# hundred. So the estimate uses measured times: the seconds that a full build on two cores needed
# for each tenth of the crates of a step. If the build is slower so far, the estimate is longer.
declare -A measured=(
    [modules]='0 3 7 10 14 18 21 23 27 31 45'
    [service]='0 8 13 21 39 85 106 144 164 185 241'
)
steps=(modules service)
interval=5

# Prints the seconds after which the measured build reached crate $2 of $3 in step $1.
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

# Prints the estimated remaining time when step $1 is at crate $2 of $3.
estimate() {
    local so_far all left
    so_far=$(measured_at "$1" "$2" "$3")
    all=$(measured_at "${steps[-1]}" 1 1)
    left=$((all - so_far))
    # A build that is faster, because some crates were already built, does not shorten the estimate.
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
