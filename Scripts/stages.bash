# For scripts that run in stages: `stage NAME COMMAND…` runs one stage and prints how long it took. If the stage fails, it ends the
# script with the exit code of the stage. A function as COMMAND runs in a subshell with `set -e`.

stages_done=()
stages_began=$SECONDS

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

stage() {
    local name="$1" began=$SECONDS status
    shift
    echo
    echo "=== $name"
    # The subshell must not be a condition: inside `if` or `||` bash would ignore its `set -e`.
    set +e
    (
        set -e
        "$@"
    )
    status=$?
    set -e
    local line
    line="$(printf '%-28s %6s' "$name" "$(clock $((SECONDS - began)))")"
    if [ $status -ne 0 ]; then
        echo
        echo "FAILED: $name (exit $status) after $(clock $((SECONDS - began)))" >&2
        exit $status
    fi
    stages_done+=("$line")
    echo "--- $name: $(clock $((SECONDS - began)))"
}

finish_stages() {
    echo
    echo "=== all stages passed"
    printf '%s\n' "${stages_done[@]}"
    printf '%-28s %6s\n' "together" "$(clock $((SECONDS - stages_began)))"
}
