package app

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
)

// presence tells the commands on this machine about a running gateway: a locked file holds its
// process id and the address of its admin listener. The kernel releases the lock with the process, so
// the file of a killed gateway misleads no command.
type presence struct {
	lock *instanceLock // nil if there is no file
	file string        // to remove at the end; "" for a lock file of SQLite, which stays
}

// takePresence returns the presence of a gateway on the database of settings. On SQLite this is the
// lock that keeps a second gateway out, beside the database. On PostgreSQL it is a file in the folder
// of this user, and the gateway serves without it if it cannot be made.
func takePresence(settings *config.Settings, log *slog.Logger) (*presence, error) {
	if path, ok := settings.SQLitePath(); ok {
		lock, err := lockDatabase(path)
		return &presence{lock: lock}, err
	}
	p, err := takePostgresPresence(settings)
	if err != nil {
		log.Debug("commands on this machine will not find this gateway", "error", err)
	}
	return p, nil
}

func takePostgresPresence(settings *config.Settings) (*presence, error) {
	folder, prefix, err := presencePlace(settings)
	if err != nil {
		return new(presence), err
	}
	if err := makePrivateFolder(folder); err != nil {
		return new(presence), err
	}
	removeStale(folder)
	path := filepath.Join(folder, prefix+strings.ToLower(rand.Text()))
	lock, err := lockInstance(path)
	return &presence{lock: lock, file: path + lockSuffix}, err
}

// announce adds the address of the admin listener.
func (p *presence) announce(admin net.Addr) error {
	if p.lock == nil {
		return nil
	}
	addr, ok := admin.(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("%s is not a TCP address", admin)
	}
	return p.lock.write(reachable(addr.AddrPort()))
}

// reachable returns the URL of a listening address for a client on this machine.
func reachable(addr netip.AddrPort) string {
	ip := addr.Addr().Unmap()
	switch {
	case ip.IsUnspecified() && ip.Is4():
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case ip.IsUnspecified():
		ip = netip.IPv6Loopback()
	}
	return "http://" + netip.AddrPortFrom(ip, addr.Port()).String()
}

// release ends the presence.
func (p *presence) release() error {
	if p.lock == nil {
		return nil
	}
	err := p.lock.release()
	if p.file == "" {
		return err
	}
	gone := os.Remove(p.file) // after the release: Windows removes no open file
	if errors.Is(gone, os.ErrNotExist) {
		gone = nil
	}
	return errors.Join(err, gone)
}

// LocalGateway returns the admin address of a gateway that this user runs on this machine and on the
// database of settings, or "". It changes nothing. For root it may be another user's gateway.
//
// If own is true, the caller may send the admin token there: the file that names the address belongs to this user, no
// other user can write or read it, and a process holds its lock.
func LocalGateway(settings *config.Settings) (address string, own bool) {
	if path, ok := settings.SQLitePath(); ok {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return "", false
		}
		return announced(real)
	}
	folder, prefix, err := presencePlace(settings)
	if err != nil || checkPrivateFolder(folder) != nil {
		return "", false
	}
	for _, path := range presences(folder, prefix) {
		if admin, own := announced(path); admin != "" {
			return admin, own
		}
	}
	return "", false
}

// announced returns the address in the lock file of path if a gateway holds it, or "". own tells that it is a gateway of this
// user; only root gets another one.
func announced(path string) (admin string, own bool) {
	file, err := openLock(path, os.O_RDONLY)
	if err != nil {
		return "", false
	}
	defer file.Close() // releases the lock, too
	info, err := file.Stat()
	own = err == nil && isPrivate(info)
	// openLock has seen that the file is root's or that of the database's owner.
	foreign := err == nil && os.Geteuid() == 0 && info.Mode().Perm()&0o077 == 0
	if !own && !foreign || !errors.Is(lockFile(file, false), errLocked) {
		return "", false
	}
	text, err := io.ReadAll(io.NewSectionReader(file, 0, maxLock))
	if err != nil {
		return "", false
	}
	_, admin, _ = parseLock(string(text))
	return admin, own && admin != ""
}

// presencePlace returns the folder of the presence files, which is that of the running programs of this
// user, and the beginning of their names for a PostgreSQL database.
func presencePlace(settings *config.Settings) (folder, prefix string, err error) {
	cfg, err := parsePostgres(settings.Database)
	if err != nil {
		return "", "", err
	}
	c := cfg.ConnConfig
	identity := fmt.Sprintf("%q %q %d %q %q %q %q", settings.Schema, c.Host, c.Port, c.Database, c.User, c.RuntimeParams["search_path"], c.RuntimeParams["options"])
	digest := sha256.Sum256([]byte(identity))
	folder = filepath.Join(os.TempDir(), "hookonce-"+strconv.Itoa(os.Geteuid()))
	if run := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(run) {
		folder = filepath.Join(run, "hookonce")
	}
	return folder, hex.EncodeToString(digest[:16]) + "-", nil
}

// presences returns the paths of the presence files in folder whose names begin with prefix, without
// the suffix of locks.
func presences(folder, prefix string) []string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	var paths []string
	for _, entry := range entries {
		name, isLock := strings.CutSuffix(entry.Name(), lockSuffix)
		if isLock && strings.HasPrefix(name, prefix) {
			paths = append(paths, filepath.Join(folder, name))
		}
	}
	return paths
}

// removeStale removes the presence files of killed gateways. A young file may be one that its gateway
// is about to lock.
func removeStale(folder string) {
	const young = time.Minute
	for _, path := range presences(folder, "") {
		info, err := os.Lstat(path + lockSuffix)
		if err != nil || time.Since(info.ModTime()) < young {
			continue
		}
		if _, serves, err := whoServes(path); err == nil && !serves {
			_ = os.Remove(path + lockSuffix) // the next gateway tries again
		}
	}
}

// makePrivateFolder makes a folder for this user alone, unless it is there.
func makePrivateFolder(folder string) error {
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return checkPrivateFolder(folder)
}

// checkPrivateFolder refuses a folder into which another user can write: any user may make one of
// that name in a folder for temporary files.
func checkPrivateFolder(folder string) error {
	info, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	if !info.IsDir() || !isPrivate(info) {
		return fmt.Errorf("%s is not a folder of this user alone", folder)
	}
	return nil
}

// parseLock reads the content of a lock file: a process id and a line break, then the address of the
// admin listener, if it is known, and a line break.
func parseLock(text string) (pid int, admin string, ok bool) {
	first, rest, _ := strings.Cut(text, "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return 0, "", false
	}
	line, complete := strings.CutSuffix(rest, "\n")
	if !complete { // the gateway does not listen yet, or is writing
		ok = strings.HasPrefix("http://", rest) || strings.HasPrefix(rest, "http://")
		return pid, "", ok
	}
	u, err := url.Parse(line)
	if err != nil || u.Scheme != "http" || line != "http://"+u.Host {
		return 0, "", false
	}
	if _, err := netip.ParseAddrPort(u.Host); err != nil {
		return 0, "", false
	}
	return pid, line, true
}
