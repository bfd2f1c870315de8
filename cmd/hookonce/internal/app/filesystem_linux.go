package app

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// sharedFileSystems are the file systems that another machine serves, or may serve, by the magic
// number in statfs(2).
var sharedFileSystems = map[uint32]string{
	0x00006969: "NFS",
	0x0000517b: "SMB",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB2",
	0x01021997: "9P",
	0x5346414f: "AFS",
	0x00c36400: "Ceph",
	0x73757245: "Coda",
	0x65735546: "FUSE",
	0x01161970: "GFS2",
	0x47504653: "GPFS",
	0x0bd00bd0: "Lustre",
	0x7461636f: "OCFS2",
}

// sharedFileSystem returns the name of the file system that holds dir if another machine may serve
// it, and "" if it is local.
func sharedFileSystem(dir string) (string, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return "", fmt.Errorf("asking for the file system of %s: %w", dir, err)
	}
	return sharedFileSystems[uint32(stat.Type)], nil
}
