#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# image.sh RELEASE FOLDER: makes system.img, vmlinuz and initrd in the folder, from Debian's packages. As root, or as a user
# whom mmdebstrap can give user namespaces.
set -euo pipefail
release=$1 folder=$(realpath "$2") here=$(dirname "$(realpath "$0")")

packages=(systemd systemd-sysv udev dbus dbus-user-session libpam-systemd linux-image-cloud-amd64 initramfs-tools
    # What Berth needs where it runs (docs/install.md); bubblewrap's uidmap is for "berth image build".
    libjansson4 libyaml-0-2 liblmdb0 libxml2 ca-certificates bubblewrap libc-ares2 libedit2 gpgv openssh-client
    # What the tests need.
    python3 git procps mount util-linux e2fsprogs skopeo zstd curl podman crun)
sources=() # mmdebstrap's own: the release with its security updates
case $release in
bookworm) packages+=(libutf8proc2 libssl3 libcurl4 libarchive13 libgit2-1.5) ;;
trixie)
    # The program that was built on bookworm, and two of its libraries whose names have changed since, beside those of trixie's own
    # package. Compiled parts of the tests' own Python packages are for bookworm's Python as well.
    packages+=(libutf8proc2 libutf8proc3 libssl3t64 libcurl4t64 libarchive13t64 libgit2-1.5 libgit2-1.9 python3-cffi-backend)
    sources=("deb http://deb.debian.org/debian trixie main" "deb http://deb.debian.org/debian trixie-updates main"
        "deb http://security.debian.org/debian-security trixie-security main" "deb http://deb.debian.org/debian bookworm main")
    ;;
*)
    echo "a release that is not known here: $release"
    exit 1
    ;;
esac

# shellcheck disable=SC2016 # $1 is the hooks' own: the new system's root
mmdebstrap --variant=minbase --include="$(IFS=, && echo "${packages[*]}")" \
    --customize-hook='useradd --root "$1" --create-home --shell /bin/bash --uid 1000 tester' \
    --customize-hook='install -d "$1/var/lib/systemd/linger" "$1/berth" "$1/python" && touch "$1/var/lib/systemd/linger/tester"' \
    --customize-hook='chroot "$1" passwd --delete root' \
    --customize-hook='chroot "$1" dbus-uuidgen >"$1/etc/machine-id"' \
    --customize-hook='echo berth-vm >"$1/etc/hostname"; echo "127.0.0.1 localhost berth-vm" >"$1/etc/hosts"' \
    --customize-hook="install -m 755 '$here/start.sh' \"\$1/usr/local/sbin/berth-vm\"" \
    --customize-hook='printf "%s\n" "[Unit]" "After=systemd-logind.service systemd-user-sessions.service" "ConditionKernelCommandLine=!berth.shell" \
        "[Service]" "Type=exec" "ExecStartPre=/usr/bin/udevadm wait --timeout=60 /dev/virtio-ports/berth.status" "ExecStart=/usr/local/sbin/berth-vm" "[Install]" "WantedBy=multi-user.target" \
        >"$1/etc/systemd/system/berth-vm.service"' \
    --customize-hook='chroot "$1" systemctl enable berth-vm.service' \
    --customize-hook='chroot "$1" systemctl mask e2scrub_reap.service systemd-update-utmp.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
        fstrim.timer getty@tty1.service ssh.service' \
    --customize-hook='printf "%s\n" virtio_pci virtio_blk ext4 >>"$1/etc/initramfs-tools/modules"' \
    --customize-hook='sed -i s/^MODULES=.*/MODULES=list/ "$1/etc/initramfs-tools/initramfs.conf" && chroot "$1" update-initramfs -u' \
    --customize-hook="cp \"\$1\"/boot/vmlinuz-* '$folder/vmlinuz' && cp \"\$1\"/boot/initrd.img-* '$folder/initrd'" \
    "$release" "$folder/system.tar" "${sources[@]}"

# Made small, then grown to 4 GB, most of which is a hole in the file.
blocks=$(($(stat -c %s "$folder/system.tar") / 4096 * 6 / 5))
genext2fs --block-size 4096 --size-in-blocks "$blocks" --number-of-inodes 100000 --tarball "$folder/system.tar" "$folder/system.img"
rm -f "$folder/system.tar"
truncate -s 4G "$folder/system.img"
# Podman and other programs with overlays on the disk ask for file types; extents are for room that is set aside for a file, and
# with the journal it comes up again after the power was cut.
tune2fs -O filetype,extent,has_journal "$folder/system.img"
e2fsck -f -y "$folder/system.img" || [ $? -eq 1 ]
resize2fs "$folder/system.img"
