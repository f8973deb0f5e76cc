"""Mounts: which file system a folder lies on. On a network one locks are lost, and with them the only supervisor."""

import os
from pathlib import Path

# As they stand in mountinfo; the FUSE ones are those with a server behind them.
NETWORK_FILE_SYSTEMS = frozenset({"9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "lustre", "nfs", "nfs4", "ocfs2"}) | {
    *("smb2", "smb3", "smbfs", "fuse.ceph", "fuse.curlftpfs", "fuse.davfs", "fuse.glusterfs", "fuse.gvfsd-fuse"),
    *("fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
}


def network_file_system(folder: Path) -> str | None:
    """The network file system that an existing folder is on; None where it is on a local one, or cannot be told."""
    try:
        return _network(_mountinfo(), os.stat(folder).st_dev)
    except FileNotFoundError:
        return None


def _mountinfo() -> str:
    try:
        return Path("/proc/self/mountinfo").read_text(errors="replace")
    except OSError:
        return ""  # Not Linux: nobody can tell, so it is allowed.


def _network(mountinfo: str, device: int) -> str | None:
    """The network file system mounted as `device`, or None where it is local or cannot be told."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in mountinfo.splitlines():
        mount, _, source = line.partition(" - ")
        kind = source.partition(" ")[0]
        if kind in NETWORK_FILE_SYSTEMS and mount.split(" ")[2:3] == [wanted]:
            return kind
    return None
