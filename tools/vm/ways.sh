# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The ways in which Berth is run in the machine. Sourced there, by job.sh; way_NAME COMMAND ... runs one.

WAYS="root container session scope bare"

# What goes along to another user.
VARIABLES=(BERTH_BIN PYTHONPATH PYTHONDONTWRITEBYTECODE LC_ALL BERTH_TEST_WAY BERTH_TEST_TIMEOUT BERTH_TEST_LAUNCHER)

way_assignments() {
    local name
    for name in "${VARIABLES[@]}"; do
        [ -z "${!name:-}" ] || printf '%s\n' "$name=${!name}"
    done
}

# As root, below system.slice: the group is made below the true top.
way_root() { "$@"; }

# As root in a container: a cgroup tree of its own whose top is not the true one, process and mount namespaces besides.
# shellcheck disable=SC2016 # expanded by the shells that are started
way_container() {
    systemd-run --quiet --scope --property=Delegate=yes -- bash -c '
        scope=/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)
        mkdir "$scope/outside" "$scope/inside" && echo 0 >"$scope/outside/cgroup.procs" &&
            echo "+memory +cpu +pids" >"$scope/cgroup.subtree_control" &&
            exec unshare --pid --fork --kill-child --mount --mount-proc -- bash -c '\''
                echo 0 >"$1/inside/cgroup.procs" && shift && exec unshare --cgroup --mount -- bash -c "
                    umount /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec \"\$@\"" bash "$@"'\'' bash "$scope" "$@"' bash "$@"
}

# As an ordinary user who has logged in: with a user manager and a bus, which are asked for a scope.
way_session() {
    local assignments
    mapfile -t assignments < <(way_assignments)
    runuser --login tester --command "cd $(printf %q "$PWD") && exec env $(printf '%q ' "${assignments[@]}" "$@")"
}

# The same, and every Berth in a scope of its own that was delegated to it.
way_scope() {
    BERTH_TEST_LAUNCHER="systemd-run --user --scope --quiet --property=Delegate=yes --" way_session "$@"
}

# As an ordinary user who has neither bus nor delegation.
way_bare() {
    local assignments
    mapfile -t assignments < <(way_assignments)
    setpriv --reuid tester --regid tester --init-groups -- env -i PATH=/usr/bin:/bin HOME=/home/tester "${assignments[@]}" "$@"
}
