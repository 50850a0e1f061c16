# sweep ID FOLDER: takes down what a state folder has on the host, found by its id. Run when its processes are dead.
set -u
id=$1 folder=$2
awk -v f="$folder" '$5 ~ "^" f || $5 ~ "^/run/windlass/'"$id"'" {print $5}' /proc/self/mountinfo | sort -r | while read -r m; do umount -l "$m"; done
for link in $(ip -o link | grep -oE "wl${id:0:4}[^:@ ]*" | sort -u); do ip link del "$link"; done
for netns in $(ls /run/netns 2> /dev/null | grep "^wl-$id"); do ip netns del "$netns"; done
nft list tables 2> /dev/null | grep -w "windlass_$id" | while read -r _ family name; do nft delete table "$family" "$name"; done
losetup -a | grep -F "$folder" | cut -d: -f1 | while read -r loop; do losetup -d "$loop"; done
for root in /sys/fs/cgroup /sys/fs/cgroup/*; do
  [ -d "$root/windlass-$id" ] && find "$root/windlass-$id" -depth -type d -exec rmdir {} \; 2> /dev/null
done
rm -f /run/systemd/nspawn/*"wl-$id"* /etc/systemd/system/*windlass-hostd-"$id"* 2> /dev/null
rm -rf "/run/windlass/$id"
grep -qF "$folder" /proc/self/mountinfo && exit 1
rm -rf "$folder"
