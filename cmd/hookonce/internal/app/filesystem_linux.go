package app

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// fileSystems are the file systems that SQLite's file should not be on, by the magic number in statfs(2). Those of other
// machines are those that coreutils calls remote.
var fileSystems = map[uint32]fileSystem{
	0x00006969: {"NFS", placeShared},
	0x0000517b: {"SMB", placeShared},
	0xff534d42: {"CIFS", placeShared},
	0xfe534d42: {"SMB2", placeShared},
	0x01021997: {"9P", placeShared},
	0x61636673: {"ACFS", placeShared},
	0x5346414f: {"AFS", placeShared},
	0x6b414653: {"AFS", placeShared},
	0x19830326: {"BeeGFS", placeShared},
	0x00c36400: {"Ceph", placeShared},
	0x73757245: {"Coda", placeShared},
	0x65735546: {"FUSE", placeShared}, // sshfs, GlusterFS, s3fs, virtiofs and others
	0x01161970: {"GFS2", placeShared},
	0x47504653: {"GPFS", placeShared},
	0x013111a8: {"IBRIX", placeShared},
	0x0bd00bd0: {"Lustre", placeShared},
	0x0000564c: {"NCP", placeShared},
	0x7461636f: {"OCFS2", placeShared},
	0x20030528: {"OrangeFS", placeShared},
	0xaad7aaea: {"PanFS", placeShared},
	0x7c7c6673: {"Parallels", placeShared},
	0xbeefdead: {"StorNext", placeShared},
	0x786f4256: {"VirtualBox", placeShared},
	0xbacbacbc: {"VMware", placeShared},

	0x01021994: {"tmpfs", placeMemory},
	0x858458f6: {"ramfs", placeMemory},

	0x61756673: {"aufs", placeLayer},
	0x794c7630: {"overlay", placeLayer},
}

// fileSystemOf returns the file system that holds dir.
func fileSystemOf(dir string) (fileSystem, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return fileSystem{}, fmt.Errorf("asking for the file system of %s: %w", dir, err)
	}
	return fileSystems[uint32(stat.Type)], nil
}
